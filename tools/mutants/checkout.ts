import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { NamedTest } from './mutant.js';

const run = promisify(execFile);

/** Longest that the named tests or a build may take: longer than a test and the end of its worker that hang. */
const LIMIT_MS = 10 * 60_000;

/** How a named test ended. */
export interface TestEnd {
  status: 'passed' | 'failed' | 'missing';
  /** What the test said, if it failed. */
  messages: string[];
}

/** A copy of the repository, to break. */
export class Checkout {
  private constructor(readonly directory: string) {}

  /** Copies the files that git tracks, as they are in the working tree, and links the installed packages. */
  static async of(repository: string): Promise<Checkout> {
    const directory = await mkdtemp(join(tmpdir(), 'follow-up-mutants-'));
    const { stdout } = await run('git', ['ls-files', '-z'], { cwd: repository, maxBuffer: 16 * 1_024 * 1_024 });
    for (const file of stdout.split('\0').filter((name) => name !== '')) {
      await cp(join(repository, file), join(directory, file));
    }
    await symlink(join(repository, 'node_modules'), join(directory, 'node_modules'));
    return new Checkout(directory);
  }

  read = (file: string): Promise<string> => readFile(join(this.directory, file), 'utf8');

  write(file: string, text: string): Promise<void> {
    return writeFile(join(this.directory, file), text);
  }

  /** Builds `dist`. @throws Error with what the compiler printed */
  async build(): Promise<void> {
    try {
      await this.#node('bin/build.js');
    } catch (error) {
      throw new Error(wordsOf(error), { cause: error });
    }
  }

  /** Runs only the named tests. */
  async test(tests: readonly NamedTest[]): Promise<TestEnd[]> {
    const report = join(this.directory, 'mutants-report.json');
    await rm(report, { force: true });
    const names = [...new Set(tests.map(({ name }) => `^${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`))].join('|');
    const files = [...new Set(tests.map(({ file }) => file))];
    const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--reporter=json', `--outputFile=${report}`];
    let words = '';
    try {
      await this.#node(...vitest, '-t', names, ...files);
    } catch (error) {
      words = wordsOf(error);
    }
    let text: string;
    try {
      text = await readFile(report, 'utf8');
    } catch (error) {
      throw new Error(`the tests did not run:\n${words}`, { cause: error });
    }
    const { testResults } = JSON.parse(text) as VitestReport;
    return tests.map(({ file, name }) => {
      const results = testResults.filter((each) => each.name === join(this.directory, file));
      const end = results.flatMap(({ assertionResults }) => assertionResults).find((each) => each.fullName === name);
      if (end?.status === 'passed') return { status: 'passed', messages: [] };
      if (end?.status === 'failed') return { status: 'failed', messages: end.failureMessages };
      return { status: 'missing', messages: results.map(({ message }) => message) };
    });
  }

  async remove(): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }

  async #node(...args: string[]): Promise<void> {
    await run(process.execPath, args, { cwd: this.directory, timeout: LIMIT_MS, maxBuffer: 64 * 1_024 * 1_024 });
  }
}

/** The part of vitest's JSON report that is read. */
interface VitestReport {
  testResults: {
    name: string;
    message: string;
    assertionResults: { fullName: string; status: string; failureMessages: string[] }[];
  }[];
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { stdout = '', stderr = '' } = error as Error & { stdout?: string; stderr?: string };
  return `${stdout}${stderr}`.trim() || error.message;
}
