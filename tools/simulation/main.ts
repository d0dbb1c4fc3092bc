import { Command } from 'commander';
import { breaks, findBreak } from './breaks.js';
import { profiles } from './faults.js';
import { runSeed } from './seed.js';
import { type Verdict, verdicts } from './verdicts.js';

interface Options {
  profile: string;
  seeds: string;
  from: string;
  trace?: true;
  twice?: true;
  break?: string;
}

/** `node tools/simulation/run.js`: runs worlds and prints what is wrong with them. Returns the exit code. */
export async function main(args: string[]): Promise<number> {
  const program = new Command('simulate')
    .description('Runs the shipped rules, flow and activities in simulated worlds full of faults, one world a seed.')
    .option('--profile <names>', `worlds: ${profiles.join(', ')}; kinds may be joined with +`, profiles.join(','))
    .option('--seeds <count>', 'how many seeds of each', '20')
    .option('--from <seed>', 'the first seed', '1')
    .option('--trace', 'print every step')
    .option('--twice', 'run each seed twice, and compare')
    .option('--break <name>', `take out a rule, or "all", one by one: ${Object.keys(breaks).join(', ')}`)
    .parse(args, { from: 'user' });
  const options = program.opts<Options>();
  let isRight = true;
  if (options.break !== undefined) {
    for (const name of options.break === 'all' ? Object.keys(breaks) : [options.break]) {
      const seen = await findBreak(name).catch((error: unknown) => console.log(String(error)));
      console.log(`${name}: ${seen ?? 'NOT NOTICED'}`);
      isRight &&= seen !== undefined;
    }
  } else for (const profile of options.profile.split(',')) isRight = (await runProfile(profile, options)) && isRight;
  return isRight ? 0 : 1;
}

async function runProfile(profile: string, { seeds, from, trace, twice }: Options): Promise<boolean> {
  // A backlog takes as long as a hundred other worlds.
  const count = profile === 'backlog' ? 1 : Number(seeds);
  const startedMs = performance.now();
  const found = new Map<Verdict, string[]>();
  const ends = new Map<string, number>();
  for (let seed = Number(from); seed < Number(from) + count; seed++) {
    const report = await runSeed(profile, seed, trace && console.log);
    if (twice && (await runSeed(profile, seed)).trace !== report.trace) throw new Error(`seed ${seed}: another trace`);
    for (const end of report.ends) ends.set(end, (ends.get(end) ?? 0) + 1);
    for (const [verdict, what] of new Map(report.found.map((each) => [each.verdict, each.what]))) {
      found.set(verdict, [...(found.get(verdict) ?? []), `    ${verdict}, seed ${seed}: ${what}`]);
    }
  }
  const rate = ((1_000 * count) / (performance.now() - startedMs)).toFixed(1);
  const words = [...found].map(([verdict, lines]) => `${verdict} ${lines.length}`).join(', ') || 'right';
  console.log(`${profile}: ${count} seeds, ${rate} a second: ${words}`);
  console.log(`    ${[...ends].map(([end, n]) => `${end} ${n}`).join(', ')}`);
  for (const [verdict, lines] of found) console.log(`    (${verdicts[verdict]})\n${lines.slice(0, 3).join('\n')}`);
  return found.size === 0;
}
