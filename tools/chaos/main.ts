import { Command, InvalidArgumentError, Option } from 'commander';
import { startDevServer } from '../../src/dev-server/index.js';
import { violationKinds } from './checker.js';
import { network } from './network.js';
import { operator } from './operator.js';
import type { Outcome, Run } from './play.js';
import { batch, freeze, kill, restart } from './workers.js';

const scenarios: Record<string, [what: string, play: (run: Run) => Promise<Outcome>]> = {
  kill: ['workers are killed at every step of a send, and while others recover', kill],
  freeze: ['workers stand still in a send for longer than its lease, and then go on', freeze],
  network: ['connections to Temporal are cut, swallowed and delayed; Temporal is killed', network],
  restart: ['workers are replaced, as a rolling deployment does', restart],
  operator: ['workflows and activities are reset, terminated, paused, cancelled, deleted', operator],
  batch: ['the two workers of a large batch are killed in turn', batch],
};

/** Budgets continue as new after a hundred events, and workflows can be paused. */
const SERVER_ARGS = ['limit.historyCount.suggestContinueAsNew=100', 'frontend.WorkflowPauseEnabled=true'].flatMap(
  (value) => ['--dynamic-config-value', value],
);

const listOf = (lines: [string, string][]) => lines.map(([name, what]) => `  ${name.padEnd(13)} ${what}`).join('\n');

const HELP = `
Scenarios:
${listOf(Object.entries(scenarios).map(([name, [what]]) => [name, what]))}

The service's ledger of messages is compared with what each caller learned. Each violation is a line, such as
  kill-5d0c9f1e-0/job-3: a message arrived twice (it arrived 2 times)
and the exit code is then 1. What can be wrong:
${listOf(Object.entries(violationKinds))}`;

/** `npm run chaos`: plays scenarios one after the other. Returns the exit code: 0 if nothing is wrong, otherwise 1. */
export async function main(args: string[]): Promise<number> {
  const options = new Command('chaos')
    .description('Breaks real workers, their network and their Temporal server, and checks that every answer is true.')
    .addOption(new Option('--only <names...>', 'play only these').choices(Object.keys(scenarios)))
    .option('--scale <number>', 'size; 1 is the short form, some minutes a scenario', wholeNumber, 10)
    .option('--seed <number>', 'seed of every random choice', wholeNumber, 1)
    .option('--verbose', 'say what happens, and print the logs of workers after a violation')
    .addHelpText('after', HELP)
    .parse(args, { from: 'user' })
    .opts<{ only?: string[]; scale: number; seed: number; verbose?: true }>();
  const { seed, scale, only = Object.keys(scenarios) } = options;
  const say = (line: string) => {
    if (options.verbose) process.stderr.write(`${line}\n`);
  };
  let exitCode = 0;
  for (const [name, [, play]] of Object.entries(scenarios).filter(([each]) => only.includes(each))) {
    const server = await startDevServer({ env: process.env, args: SERVER_ARGS });
    const startedMs = performance.now();
    const run = { seed, scale, address: server.address, say };
    const { counts, violations } = await play(run).finally(() => server.stop());
    const verdict = violations.length === 0 ? 'right' : `${violations.length} VIOLATIONS`;
    console.log(`${name}: seed ${seed}, ${Math.round((performance.now() - startedMs) / 1_000)} s: ${verdict}`);
    const counted = Object.entries(counts).map(([what, number]) => `${what} ${number}`);
    console.log(`  ${counted.join(', ')}`);
    for (const { kind, subject, detail } of violations)
      console.log(`  ${subject}: ${violationKinds[kind]} (${detail})`);
    if (violations.length > 0) exitCode = 1;
  }
  return exitCode;
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It must be a whole number from 1.');
  return Number(text);
}
