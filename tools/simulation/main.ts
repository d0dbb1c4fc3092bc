import { Command } from 'commander';
import { breaks, findBreak } from './breaks.js';
import { verdicts } from './log.js';
import { profiles } from './profiles.js';
import { runSeed } from './seed.js';

const HELP = `
Each world that is wrong is printed with its verdict, and exits with 1:
  all, seed 43: lies: follow-up/p/j1/k3 run12 JobTimeout no
Repeat it, with every step: npm run simulate -- --profile all --from 43 --seeds 1 --trace

Profiles (kinds of faults can be joined with +): ${profiles.join(', ')}

Verdicts:
${Object.entries(verdicts)
  .map(([name, meaning]) => `  ${name.padEnd(8)} ${meaning}`)
  .join('\n')}

Rules for --break: ${Object.keys(breaks).join(', ')}`;

/** `npm run simulate`: runs worlds and prints what is wrong with them. Returns the exit code. */
export async function main(args: string[]): Promise<number> {
  const program = new Command('simulate')
    .description('Runs the shipped flows, rules and activities in simulated worlds full of faults, one world a seed.')
    .option('--profile <names>', 'which faults, with commas between profiles (default: all profiles)')
    .option('--seeds <count>', 'how many seeds of each profile (of backlog: 1)', '20')
    .option('--from <seed>', 'the first seed', '1')
    .option('--trace', 'print every step')
    .option('--break <name>', 'take out a rule, or "all" one after the other, until a seed notices it')
    .addHelpText('after', HELP)
    .parse(args, { from: 'user' });
  const options = program.opts<{ profile?: string; seeds: string; from: string; trace?: true; break?: string }>();
  const [from, seeds] = [Number(options.from), Number(options.seeds)];
  let isRight = true;
  if (options.break !== undefined) {
    for (const name of options.break === 'all' ? Object.keys(breaks) : [options.break]) {
      const seen = await findBreak(name);
      console.log(`${name}: ${seen ?? 'NOT NOTICED'}`);
      isRight &&= seen !== undefined;
    }
    return isRight ? 0 : 1;
  }
  for (const profile of options.profile?.split(',') ?? profiles) {
    const count = profile === 'backlog' ? 1 : seeds;
    let wrong = 0;
    for (let seed = from; seed < from + count; seed++) {
      const { found } = await runSeed(profile, seed, options.trace && console.log);
      for (const { verdict, what } of found) console.log(`${profile}, seed ${seed}: ${verdict}: ${what}`);
      wrong += found.length > 0 ? 1 : 0;
    }
    console.log(`${profile}: ${count} seeds, ${wrong} wrong`);
    isRight &&= wrong === 0;
  }
  return isRight ? 0 : 1;
}
