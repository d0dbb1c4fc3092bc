import { Command, InvalidArgumentError, Option } from 'commander';
import { breakages, isBreakage, type Breakage } from './breakages.js';
import { profiles, isProfile, type Profile } from './profiles.js';
import { Report } from './report.js';
import { runSeed } from './run-seed.js';

interface SimulateOptions {
  seeds: { first: number; last: number };
  break: ReadonlySet<Breakage>;
  profile: Profile;
  trace?: number;
  json?: true;
}

/** How many seeds pass between two updates of the progress on a terminal. */
const PROGRESS_EVERY = 500;

/** `npm run simulate`: runs worlds and prints a report. Returns the exit code: 0 if nothing is wrong, otherwise 1. */
export function main(args: string[]): number {
  const program = new Command('simulate')
    .description('Runs the rules of the message budget in simulated worlds full of faults, one world a seed.')
    .addOption(
      new Option('--seeds <first..last>', 'seeds to run')
        .default({ first: 1, last: 3_000 }, '1..3000')
        .argParser(range),
    )
    .addOption(
      new Option('--break <rules>', `take rules out: ${Object.keys(breakages).join(', ')}`)
        .default(new Set<Breakage>(), 'none')
        .argParser(rules),
    )
    .addOption(
      new Option('--profile <name>', `kind of world: ${Object.keys(profiles).join(', ')}`)
        .default('chaos')
        .argParser(profile),
    )
    .addOption(new Option('--trace <seed>', 'print every step of one seed').argParser(wholeNumber))
    .option('--json', 'print the report as JSON')
    .addHelpText('after', `\nRules that can be taken out:\n${list(breakages)}\n\nProfiles:\n${list(profiles)}`)
    .parse(args, { from: 'user' });
  return simulate(program.opts<SimulateOptions>()) ? 0 : 1;
}

/** Runs the seeds. Returns whether nothing is wrong. */
function simulate({ seeds, break: broken, profile, trace, json }: SimulateOptions): boolean {
  const startedMs = performance.now();
  const report = new Report(profile, [...broken]);
  const { first, last } = trace === undefined ? seeds : { first: trace, last: trace };
  for (let seed = first; seed <= last; seed++) {
    report.add(runSeed({ seed, profile, broken, ...(trace !== undefined && { trace: print }) }));
    if (process.stderr.isTTY && report.seeds % PROGRESS_EVERY === 0) process.stderr.write(`\r${report.seeds} seeds `);
  }
  if (process.stderr.isTTY && report.seeds >= PROGRESS_EVERY) process.stderr.write('\r');
  const elapsedMs = performance.now() - startedMs;
  print(json ? JSON.stringify(report.toJson(elapsedMs)) : report.toText(elapsedMs));
  return report.isRight;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function range(text: string): { first: number; last: number } {
  const [, first, last] = /^(\d+)(?:\.\.(\d+))?$/.exec(text) ?? [];
  if (first === undefined) throw new InvalidArgumentError('must be a seed, or first..last such as 1..3000.');
  if (Number(last ?? first) < Number(first))
    throw new InvalidArgumentError('the last seed must not be below the first.');
  return { first: Number(first), last: Number(last ?? first) };
}

function rules(text: string): ReadonlySet<Breakage> {
  return new Set(
    text.split(',').map((name) => {
      if (isBreakage(name)) return name;
      throw new InvalidArgumentError(`"${name}" must be one of ${Object.keys(breakages).join(', ')}.`);
    }),
  );
}

function profile(text: string): Profile {
  if (isProfile(text)) return text;
  throw new InvalidArgumentError(`must be one of ${Object.keys(profiles).join(', ')}.`);
}

function wholeNumber(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('must be a whole number.');
  return Number(text);
}

function list(entries: Readonly<Record<string, string>>): string {
  return Object.entries(entries)
    .map(([name, meaning]) => `  ${name.padEnd(12)} ${meaning}`)
    .join('\n');
}
