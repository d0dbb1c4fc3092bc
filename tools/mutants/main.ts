import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { Checkout } from './checkout.js';
import { mutate, type Mutant } from './mutant.js';
import { mutants } from './mutants.js';

/** A failure message of an assertion or a property test: the test looked, and did not find what it should. */
const ASSERTION = /AssertionError|^Error: Property failed after \d+ tests/;

/** The workflows that the worker runs, in the tests too. */
const BUNDLE = 'dist/workflow-bundle.js';

/**
 * `npm run mutants`: makes one wrong edit after the other in a copy of the repository, and runs the test that must
 * catch it. Prints a line for each.
 *
 * @returns the exit code: 0 if every edit was caught, otherwise 1
 */
export async function main(args: string[]): Promise<number> {
  const program = new Command('mutants')
    .description('break the code as somebody could by mistake, and check that a test fails each time')
    .option('--only <words>', 'run only the mutants whose name contains these words')
    .option('--verbose', 'say how the tests failed', false)
    .parse(args, { from: 'user' });
  const { only = '', verbose } = program.opts<{ only?: string; verbose: boolean }>();
  const chosen = mutants.filter(({ name }) => name.includes(only));
  if (chosen.length === 0) program.error(`--only: no mutant has ${JSON.stringify(only)} in its name`, { exitCode: 2 });

  const checkout = await Checkout.of(fileURLToPath(new URL('../..', import.meta.url)));
  try {
    say(`building, and running the ${chosen.length} tests on the code as it is`);
    await checkout.build();
    const ends = await checkout.test(chosen.map(({ test }) => test));
    const bad = chosen.filter((_mutant, index) => ends[index]?.status !== 'passed');
    for (const { test } of bad) {
      const { status, messages } = ends[chosen.findIndex((each) => each.test === test)] ?? { status: '', messages: [] };
      say(`${test.file}: "${test.name}" must pass on the code as it is, but it is ${status}\n${messages.join('\n')}`);
    }
    if (bad.length > 0) return 1;

    const bundle = await checkout.read(BUNDLE);
    let caught = 0;
    for (const mutant of chosen) {
      const startedMs = performance.now();
      const escape = await attack(checkout, mutant, verbose);
      await checkout.write(BUNDLE, bundle);
      if (escape === undefined) caught += 1;
      const seconds = ((performance.now() - startedMs) / 1_000).toFixed(0);
      say(`${escape === undefined ? 'caught' : 'MISSED'} ${mutant.name}: ${mutant.what} (${seconds} s)`);
      say(`       by ${mutant.test.file}: ${mutant.test.name}`);
      if (escape !== undefined) say(`       ${escape}`);
    }
    say(`${caught} of ${chosen.length} caught`);
    return caught === chosen.length ? 0 : 1;
  } finally {
    await checkout.remove();
  }
}

/** Returns why a mutant was not caught, or `undefined` if it was. */
async function attack(checkout: Checkout, mutant: Mutant, verbose: boolean): Promise<string | undefined> {
  const texts = await mutate(mutant, checkout.read);
  const before = new Map<string, string>();
  for (const [file, text] of texts) {
    before.set(file, await checkout.read(file));
    await checkout.write(file, text);
  }
  try {
    if (mutant.rebuilds) await checkout.build();
    const [end] = await checkout.test([mutant.test]);
    if (verbose) say(end?.messages.join('\n') ?? '');
    if (end?.status === 'failed' && end.messages.some((message) => ASSERTION.test(message))) return undefined;
    if (end?.status === 'passed') return 'the test passed';
    return `the test did not fail by an assertion: ${end?.status ?? 'missing'}\n${end?.messages.join('\n') ?? ''}`;
  } catch (error) {
    return `the test could not be run: ${error instanceof Error ? error.message : String(error)}`;
  } finally {
    for (const [file, text] of before) await checkout.write(file, text);
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
