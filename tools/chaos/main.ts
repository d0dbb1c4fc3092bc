import { writeFile } from 'node:fs/promises';
import { Command, InvalidArgumentError } from 'commander';
import { violationKinds } from './checker.js';
import { scenarios, type ScenarioName } from './scenarios.js';
import type { ScenarioOutcome } from './scenario.js';

interface Options {
  seed: number;
  kills: number;
  scale: number;
  only?: string[];
  report?: string;
  verbose: boolean;
}

/**
 * `npm run chaos`: runs the scenarios one after the other, and prints a line for each and what is wrong.
 *
 * @returns the exit code: 0 if nothing is wrong, otherwise 1
 */
export async function main(args: string[]): Promise<number> {
  const names = Object.keys(scenarios);
  const program = new Command('chaos')
    .description('break everything around the product, and check the ledger of the service')
    .option('--seed <number>', 'seed of every random choice', wholeNumber, 1)
    .option('--kills <number>', 'number of kills in the scenario kill', wholeNumber, 200)
    .option('--scale <number>', 'size of the other scenarios; 1 is the short form', wholeNumber, 10)
    .option('--only <names...>', `run only these, of ${names.join(', ')}`)
    .option('--report <file>', 'write the findings to this file, as JSON')
    .option('--verbose', 'say what happens', false)
    .parse(args, { from: 'user' });
  const options = program.opts<Options>();
  const chosen = (options.only ?? names).map((name) => {
    if (name in scenarios) return name as ScenarioName;
    return program.error(`--only: ${name} is not one of ${names.join(', ')}`, { exitCode: 2 });
  });
  const outcomes: ScenarioOutcome[] = [];
  for (const name of chosen) {
    const { seed, kills, scale } = options;
    const say = options.verbose ? (line: string) => process.stderr.write(`${line}\n`) : () => undefined;
    const outcome = await scenarios[name]({ seed, kills, scale, say });
    outcomes.push(outcome);
    process.stdout.write(`${describeOutcome(outcome)}\n`);
    if (options.report !== undefined) await writeFile(options.report, `${JSON.stringify(outcomes, undefined, 2)}\n`);
  }
  return outcomes.every(({ violations }) => violations.length === 0) ? 0 : 1;
}

function describeOutcome({ name, seed, durationMs, counts, hits, violations }: ScenarioOutcome): string {
  const list = (numbers: Record<string, number>) =>
    Object.entries(numbers)
      .map(([what, number]) => `${what} ${number}`)
      .join(', ');
  const verdict = violations.length === 0 ? 'right' : `${violations.length} VIOLATIONS`;
  const line = `${name} seed ${seed}, ${Math.round(durationMs / 1_000)} s: ${list(counts)}: ${verdict}`;
  return [
    line,
    ...(hits ? [`  struck at ${Object.keys(hits).length} steps: ${list(hits)}`] : []),
    ...violations.map((each) => `  ${each.subject}: ${violationKinds[each.kind]} (${each.detail})`),
  ].join('\n');
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}
