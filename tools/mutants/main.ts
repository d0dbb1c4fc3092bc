import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Command } from 'commander';
import { type Mutant, mutants, mutate, needsBuild } from './mutants.js';

const run = promisify(execFile);
/** Longest that a build or the named tests may take: longer than a test that hangs. */
const LIMIT_MS = 10 * 60_000;
/** The workflows that the worker runs, in the tests too. */
const BUNDLE = 'dist/workflow-bundle.js';
/** The message of an assertion or of a property test. A test that fails otherwise may not have looked. */
const ASSERTION = /AssertionError|^Error: Property failed after \d+ tests/;

/**
 * `npm run mutants`: makes one wrong edit after the other in a copy of the repository, and runs the test that must
 * catch it. Prints a line for each.
 *
 * @returns the exit code: 0 if every edit was caught, otherwise 1
 */
export async function main(args: string[]): Promise<number> {
  const program = new Command('mutants')
    .description('Makes wrong edits in a copy of the repository, one at a time. Each must fail the test that it names.')
    .option('--only <text>', 'only the mutants whose name contains this text', '')
    .addHelpText('after', `\nMutants:\n${mutants.map(({ name, test }) => `  ${name}\n    ${test.file}`).join('\n')}`)
    .parse(args, { from: 'user' });
  const { only } = program.opts<{ only: string }>();
  const chosen = mutants.filter(({ name }) => name.includes(only));
  if (chosen.length === 0) program.error(`--only: no mutant has ${JSON.stringify(only)} in its name`, { exitCode: 2 });

  const copy = await copyOf(fileURLToPath(new URL('../..', import.meta.url)));
  try {
    console.log(`building, and running the ${chosen.length} tests on the code as it is`);
    await node(copy, 'bin/build.js', '--if-stale');
    const ends = await runTests(copy, chosen);
    const bad = chosen.flatMap(({ test }, i) => (ends[i]?.status === 'passed' ? [] : [{ ...test, ...ends[i] }]));
    for (const { file, name, status, messages } of bad) {
      console.log(`${file}: "${name}" must pass on the code as it is: ${status}\n${messages?.join('\n')}`);
    }
    if (bad.length > 0) return 1;
    let caught = 0;
    for (const mutant of chosen) {
      const escape = await attack(copy, mutant);
      if (escape === undefined) caught += 1;
      console.log(`${escape === undefined ? 'caught' : 'MISSED'} ${mutant.name}\n    by ${mutant.test.file}`);
      if (escape !== undefined) console.log(`    ${escape}`);
    }
    console.log(`${caught} of ${chosen.length} caught`);
    return caught === chosen.length ? 0 : 1;
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

/** Copies the files that git tracks, as they are in the working tree, and links the installed packages. */
async function copyOf(repository: string): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'follow-up-mutants-'));
  const { stdout } = await run('git', ['ls-files', '-z'], { cwd: repository, maxBuffer: 16 * 1_024 * 1_024 });
  for (const file of stdout.split('\0').filter(Boolean)) await cp(join(repository, file), join(copy, file));
  await symlink(join(repository, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}

/** Returns why a mutant was not caught, or `undefined` if it was. */
async function attack(copy: string, mutant: Mutant): Promise<string | undefined> {
  const texts = await mutate(mutant, (file) => readFile(join(copy, file), 'utf8'));
  const files = [...texts.keys(), ...(needsBuild(mutant) ? [BUNDLE] : [])];
  const before = await Promise.all(files.map(async (file) => [file, await readFile(join(copy, file))] as const));
  try {
    for (const [file, text] of texts) await writeFile(join(copy, file), text);
    if (needsBuild(mutant)) await node(copy, 'bin/build.js', '--if-stale');
    const [end] = await runTests(copy, [mutant]);
    if (end?.status === 'failed' && end.messages.some((message) => ASSERTION.test(message))) return undefined;
    return `the test did not fail by an assertion: ${end?.status}\n${end?.messages.join('\n')}`;
  } catch (error) {
    return `the test did not run: ${String(error)}`;
  } finally {
    for (const [file, text] of before) await writeFile(join(copy, file), text);
  }
}

/** Runs only the tests that the mutants name, and returns how they ended: `missing` if no test has the name. */
async function runTests(copy: string, chosen: readonly Mutant[]) {
  const report = join(copy, 'mutants-report.json');
  await rm(report, { force: true });
  const names = chosen.map(({ test }) => `^${test.name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`);
  const options = ['run', '--reporter=json', `--outputFile=${report}`, '-t', [...new Set(names)].join('|')];
  const files = new Set(chosen.map(({ test }) => test.file));
  const failure = await node(copy, 'node_modules/vitest/vitest.mjs', ...options, ...files).catch(String);
  const text = await readFile(report, 'utf8').catch(() => Promise.reject(new Error(failure)));
  const { testResults } = JSON.parse(text) as VitestReport;
  return chosen.map(({ test }) => {
    const results = testResults.filter((each) => each.name === join(copy, test.file));
    const end = results.flatMap((each) => each.assertionResults).find((each) => each.fullName === test.name);
    if (!end) return { status: 'missing', messages: results.map(({ message }) => message) };
    // A process that broke off says why.
    return { status: end.status, messages: end.status === 'pending' ? [failure] : end.failureMessages };
  });
}

/** The part of vitest's JSON report that is read. */
interface VitestReport {
  testResults: {
    name: string;
    message: string;
    assertionResults: { fullName: string; status: string; failureMessages: string[] }[];
  }[];
}

/** @throws Error with what the program printed */
async function node(copy: string, ...args: string[]): Promise<string> {
  const options = { cwd: copy, timeout: LIMIT_MS, maxBuffer: 64 * 1_024 * 1_024 };
  return run(process.execPath, args, options).then(
    ({ stdout }) => stdout,
    (error: unknown) => {
      const { stdout, stderr } = error as { stdout: string; stderr: string };
      throw new Error(`${stdout}${stderr}`, { cause: error });
    },
  );
}
