import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { ESLint } from 'eslint';
import { describe, expect, test } from 'vitest';

const root = join(import.meta.dirname, '..', '..');
const eslint = new ESLint({ cwd: root });

/** A file of a directory, whose text is replaced. It must exist, because rules that need types know only real files. */
function anyFileIn(directory: string): string {
  const name = readdirSync(join(root, directory)).find((entry) => entry.endsWith('.ts') && entry !== 'index.ts');
  if (name === undefined) throw new Error(`no TypeScript file in ${directory}`);
  return join(directory, name);
}

async function rulesBrokenBy(code: string, filePath: string): Promise<(string | null)[]> {
  const [result] = await eslint.lintText(code, { filePath: join(root, filePath) });
  const messages = result?.messages ?? [];
  expect(messages.filter(({ fatal }) => fatal)).toEqual([]);
  return messages.map(({ ruleId }) => ruleId);
}

const imports = '@typescript-eslint/no-restricted-imports';
const syntax = 'no-restricted-syntax';
const importing = (path: string) => `import { x } from '${path}'; export const y = x;`;

describe.each(['src/workflows', 'src/contract', 'src/protocol', 'src/common'])('%s', (directory) => {
  test.each([
    ...[
      'node:fs',
      'fs',
      'node:fs/promises',
      'undici',
      'pino',
      'commander',
      '../activities/index.js',
      '../config/index.js',
    ],
    ...['client', 'worker', 'activity', 'testing/lib/y', 'envconfig'].map((name) => `@temporalio/${name}`),
    '../agent-jobs/index.js',
  ])('must not import %s', async (path) => {
    expect(await rulesBrokenBy(importing(path), anyFileIn(directory))).toContain(imports);
  });

  test('may import the types of activities, and the workflow and common packages', async () => {
    const types = "import type { Activities } from '../activities/index.js'; export type A = Activities;";
    for (const code of [types, importing('@temporalio/workflow'), importing('@temporalio/common')]) {
      expect(await rulesBrokenBy(code, anyFileIn(directory))).not.toContain(imports);
    }
  });
});

describe.each(['src/batch', 'src/budget', 'src/follow-up'])('%s', (directory) => {
  test.each([
    ['import the workflow package', importing('@temporalio/workflow'), imports],
    [
      'import a type of Temporal',
      "import type { Duration } from '@temporalio/common'; export type D = Duration;",
      imports,
    ],
    ['import a Node built-in', importing('node:crypto'), imports],
    ['read the clock', 'export const now = (): number => Date.now();', syntax],
    ['make a date of now', 'export const now = (): Date => new Date();', syntax],
    ['make a text of now', 'export const now = (): string => Date();', syntax],
    ['draw a random number', 'export const draw = (): number => Math.random();', syntax],
    ['use the monotonic clock', 'export const now = (): number => performance.now();', 'no-restricted-globals'],
    ['set a timer', 'setTimeout(() => undefined, 1);', 'no-restricted-globals'],
  ])('must not %s', async (_what, code, rule) => {
    expect(await rulesBrokenBy(code, anyFileIn(directory))).toContain(rule);
  });

  test('may make a date of a given time', async () => {
    const code = 'export const iso = (atMs: number): string => new Date(atMs).toISOString();';
    expect(await rulesBrokenBy(code, anyFileIn(directory))).toEqual([]);
  });
});

test.each([
  ['src/worker.ts', './client/client-errors.js'],
  [anyFileIn('src/worker'), '../client/client-errors.js'],
  [anyFileIn('src/temporal'), '../client/client-errors.js'],
  ['src/activities/index.ts', '../client/client-errors.js'],
  ['src/cli/batch-commands.ts', '../client/client-errors.js'],
  ['src/cli/budget-commands.ts', '../budget/budget.js'],
  ['src/cli/follow-up-commands.ts', '../agent-jobs/index.js'],
  ['src/cli/session.ts', '../worker/worker-options.js'],
  ['src/cli/doctor.ts', '../contract/choices.js'],
  ['src/budget/budget.ts', '../contract/budget-status.js'],
  ['src/contract/ids.ts', '../protocol/index.js'],
  ['src/protocol/response-meanings.ts', '../budget/state.js'],
  ['src/common/text.ts', '../contract/index.js'],
  ['src/client/calls.ts', '../protocol/response-meanings.js'],
  ['test/budget/asks.test.ts', '../../src/common/text.js'],
])('%s must not import %s', async (file, path) => {
  expect(await rulesBrokenBy(importing(path), file)).toContain(imports);
});

test.each([
  ['src/cli/batch-commands.ts', '../client/index.js'],
  ['src/cli/doctor.ts', '../agent-jobs/index.js'],
])('%s may import %s', async (file, path) => {
  expect(await rulesBrokenBy(importing(path), file)).not.toContain(imports);
});

test.each([
  'export const home = process.env;',
  "export const home = process['env'];",
  'const { env } = process; export { env };',
  "import { env } from 'node:process'; export { env };",
  "import p from 'node:process'; export const home = p.env;",
])('only the configuration reads the environment: %s', async (code) => {
  expect(await rulesBrokenBy(code, 'src/worker/logging.ts')).toContain(syntax);
  if (code.includes('process.env')) expect(await rulesBrokenBy(code, 'src/config/index.ts')).toEqual([]);
});

test('no two files of src share a name, other than index.ts', () => {
  const names = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).map((path) => basename(path));
  const shared = names.filter((name, index) => name.endsWith('.ts') && names.indexOf(name) !== index);
  expect([...new Set(shared)]).toEqual(['index.ts']);
});

const nested = (depth: number): string => (depth === 0 ? 'console;' : `if (Date) { ${nested(depth - 1)} }`);
test.each([
  ['a file of 351 lines', 'max-lines', (more: number) => '\n'.repeat(349 + more) + 'export {};'],
  ['a function of 61 lines', 'max-lines-per-function', (more: number) => `function f() {${'\n'.repeat(59 + more)}}`],
  ['a block five deep', 'max-depth', (more: number) => nested(4 + more)],
])('%s is reported in src, but not a smaller one', async (_what, rule, codeOf) => {
  expect(await rulesBrokenBy(codeOf(1), 'src/worker.ts')).toContain(rule);
  expect(await rulesBrokenBy(codeOf(0), 'src/worker.ts')).not.toContain(rule);
});

const floating = 'export async function f(): Promise<void> { await Promise.resolve(); }\nf();';
test.each([
  ['a promise that nobody awaits', floating, '@typescript-eslint/no-floating-promises'],
  ['an enum', 'export enum X { A }', syntax],
  ['a default export', 'export default 1;', syntax],
  ['a default export by name', 'const x = 1; export { x as default };', syntax],
])('%s is reported', async (_what, code, rule) => {
  for (const file of ['src/config/index.ts', 'test/lint/guards.long.test.ts']) {
    expect(await rulesBrokenBy(code, file)).toContain(rule);
  }
});

test('an import cycle is reported, but not one of types alone', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'cycle-'));
  const write = (path: string, text: string) => writeFileSync(join(directory, path), text);
  const findCycles = () => promisify(execFile)(join(root, 'node_modules/.bin/knip'), ['--cycles', '-D', directory]);
  try {
    mkdirSync(join(directory, 'src/client'), { recursive: true });
    cpSync(join(root, 'tsconfig.json'), join(directory, 'tsconfig.json'));
    const { knip } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    write('package.json', JSON.stringify({ name: 'cycle', type: 'module', knip }));
    write('src/client/index.ts', "import { b } from './b.js';\nexport const a = () => b;\n");
    write('src/client/b.ts', "import type { a } from './index.js';\nexport const b = (f: typeof a) => f;\n");
    await findCycles();
    write('src/client/b.ts', "import { a } from './index.js';\nexport const b = () => a;\n");
    await expect(findCycles()).rejects.toMatchObject({ stdout: expect.stringContaining('b.ts') });
  } finally {
    rmSync(directory, { recursive: true });
  }
});
