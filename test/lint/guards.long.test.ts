import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

async function rulesBrokenBy(code: string, filePath: string): Promise<string[]> {
  const [result] = await eslint.lintText(code, { filePath: join(root, filePath) });
  const messages = result?.messages ?? [];
  expect(messages.filter(({ fatal }) => fatal)).toEqual([]);
  return messages.map(({ ruleId }) => ruleId ?? 'none');
}

const imports = '@typescript-eslint/no-restricted-imports';
const syntax = 'no-restricted-syntax';

describe('workflow code and the contract', () => {
  const bad = {
    'a Node built-in': "import { readFileSync } from 'node:fs'; export const f = readFileSync;",
    'a Node built-in without its prefix': "import { readFileSync } from 'fs'; export const f = readFileSync;",
    'a part of a Node built-in': "import { readFile } from 'node:fs/promises'; export const f = readFile;",
    'the Temporal client': "import { Client } from '@temporalio/client'; export const c = Client;",
    'the Temporal worker': "import { Worker } from '@temporalio/worker'; export const w = Worker;",
    'activity context': "import { Context } from '@temporalio/activity'; export const c = Context;",
    'a part of the testing package': "import { x } from '@temporalio/testing/lib/y'; export const z = x;",
    'environment configuration':
      "import { loadClientConfig } from '@temporalio/envconfig'; export const l = loadClientConfig;",
    undici: "import { request } from 'undici'; export const r = request;",
    pino: "import { pino } from 'pino'; export const p = pino;",
    commander: "import { Command } from 'commander'; export const c = Command;",
    'activities at run time':
      "import { createActivities } from '../activities/index.js'; export const c = createActivities;",
    'the HTTP client': "import { request } from '../agent-jobs/index.js'; export const c = request;",
    configuration: "import { loadConfig } from '../config.js'; export const c = loadConfig;",
  };
  for (const directory of ['src/workflows', 'src/contract']) {
    for (const [what, code] of Object.entries(bad)) {
      test(`must not import ${what}: ${directory}`, async () => {
        expect(await rulesBrokenBy(code, anyFileIn(directory))).toContain(imports);
      });
    }
  }

  test('may import the types of activities', async () => {
    const code = "import type { Activities } from '../activities/index.js'; export type A = Activities;";
    expect(await rulesBrokenBy(code, anyFileIn('src/workflows'))).not.toContain(imports);
  });

  test('may use the workflow and common packages', async () => {
    const code =
      "import { sleep } from '@temporalio/workflow'; import { defaultPayloadConverter } from '@temporalio/common'; export const used = [sleep, defaultPayloadConverter];";
    expect(await rulesBrokenBy(code, anyFileIn('src/workflows'))).not.toContain(imports);
  });
});

describe('pure code', () => {
  const bad: Record<string, [code: string, rule: string]> = {
    'import the workflow package': ["import { sleep } from '@temporalio/workflow'; export const s = sleep;", imports],
    'import a type of the common package': [
      "import type { Duration } from '@temporalio/common'; export type D = Duration;",
      imports,
    ],
    'import a Node built-in': ["import { randomUUID } from 'node:crypto'; export const r = randomUUID;", imports],
    'read the clock': ['export const now = (): number => Date.now();', syntax],
    'make a date of now': ['export const now = (): Date => new Date();', syntax],
    'make a text of now': ['export const now = (): string => Date();', syntax],
    'draw a random number': ['export const draw = (): number => Math.random();', syntax],
    'use the monotonic clock': ['export const now = (): number => performance.now();', 'no-restricted-globals'],
    'set a timer': ['setTimeout(() => undefined, 1);', 'no-restricted-globals'],
  };
  for (const directory of ['src/batch', 'src/budget', 'src/follow-up']) {
    for (const [what, [code, rule]] of Object.entries(bad)) {
      test(`must not ${what}: ${directory}`, async () => {
        expect(await rulesBrokenBy(code, anyFileIn(directory))).toContain(rule);
      });
    }
  }

  test('may make a date of a given time', async () => {
    const code = 'export const iso = (atMs: number): string => new Date(atMs).toISOString();';
    expect(await rulesBrokenBy(code, anyFileIn('src/budget'))).toEqual([]);
  });
});

describe('the worker', () => {
  const code = "import { FollowUpClientError as E } from '../client/errors.js'; export const e = E;";
  for (const file of ['src/worker.ts', anyFileIn('src/worker'), 'src/activities/index.ts', anyFileIn('src/temporal')]) {
    test(`must not import the client: ${file}`, async () => {
      expect(await rulesBrokenBy(code.replace('../', file === 'src/worker.ts' ? './' : '../'), file)).toContain(
        imports,
      );
    });
  }
});

describe('the command line', () => {
  const importing = (path: string) => `import { x } from '${path}'; export const y = x;`;
  test.each([
    ['a file behind the index of the library', 'src/cli/batch.ts', '../client/errors.js'],
    ['the rules of the budget', 'src/cli/budget.ts', '../budget/budget.js'],
    ['the HTTP client', 'src/cli/follow-up.ts', '../agent-jobs/index.js'],
    ['the worker in a session', 'src/cli/session.ts', '../worker/options.js'],
  ])('must not import %s', async (_what, file, path) => {
    expect(await rulesBrokenBy(importing(path), file)).toContain(imports);
  });

  test.each([
    ['src/cli/batch.ts', '../client/index.js'],
    ['src/cli/budget.ts', './budget.js'],
    ['src/cli/doctor.ts', '../agent-jobs/index.js'],
  ])('%s may import %s', async (file, path) => {
    expect(await rulesBrokenBy(importing(path), file)).not.toContain(imports);
  });
});

describe('the environment', () => {
  const bad = {
    'as a property': 'export const home = process.env;',
    'by a computed name': "export const home = process['env'];",
    'taken apart': 'const { env } = process; export { env };',
    'by import': "import { env } from 'node:process'; export { env };",
    'under another name': "import p from 'node:process'; export const home = p.env;",
  };
  for (const [how, code] of Object.entries(bad)) {
    test(`is not read outside the configuration, ${how}`, async () => {
      expect(await rulesBrokenBy(code, 'src/logging.ts')).toContain(syntax);
    });
  }

  test('is read in the configuration', async () => {
    expect(await rulesBrokenBy('export const environment = process.env;', 'src/config/index.ts')).toEqual([]);
  });
});

describe('everywhere', () => {
  const bad: Record<string, [code: string, rule: string]> = {
    'a promise that nobody awaits': [
      'export async function f(): Promise<void> { await Promise.resolve(); }\nf();',
      '@typescript-eslint/no-floating-promises',
    ],
    'a promise where a boolean is expected': [
      'export function f(p: Promise<boolean>): number { return p ? 1 : 2; }',
      '@typescript-eslint/no-misused-promises',
    ],
    'a switch that forgets a case': [
      "export function f(x: 'a' | 'b'): void { switch (x) { case 'a': break; } }",
      '@typescript-eslint/switch-exhaustiveness-check',
    ],
    'a type imported as a value': [
      "import { Logger } from 'pino'; export type L = Logger;",
      '@typescript-eslint/consistent-type-imports',
    ],
    'an any': ['export const x: any = 1;', '@typescript-eslint/no-explicit-any'],
    'an enum': ['export enum X { A }', syntax],
    'a default export': ['export default 1;', syntax],
    'a default export by name': ['const x = 1; export { x as default };', syntax],
    'a module imported twice': [
      "import { join } from 'node:path'; import { dirname } from 'node:path'; export const f = [join, dirname];",
      'no-duplicate-imports',
    ],
  };
  for (const [what, [code, rule]] of Object.entries(bad)) {
    test(`${what} is reported`, async () => {
      expect(await rulesBrokenBy(code, 'src/config/index.ts')).toContain(rule);
    });
  }

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

  test('tests may not leave a promise unawaited', async () => {
    const code = 'async function f(): Promise<void> { await Promise.resolve(); }\nf();';
    expect(await rulesBrokenBy(code, 'test/lint/guards.long.test.ts')).toContain(
      '@typescript-eslint/no-floating-promises',
    );
  });
});
