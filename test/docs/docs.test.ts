import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { format } from 'prettier';
import { beforeAll, describe, expect, test } from 'vitest';
import { ExitCode } from '../../src/cli/cli.js';
import * as client from '../../src/client/index.js';
import * as settingsTables from '../../src/config/settings.js';
import type { Setting } from '../../src/config/settings-reader.js';
import * as contract from '../../src/contract/index.js';
import { followUpSettings } from '../../src/contract/index.js';
import { runCli } from '../cli/run-cli.js';
import { compilerErrors } from '../support/compile.js';
import { filesBelow, pages, read, ROOT } from './pages.js';

/** The help of every command and group, by its words. The key `''` is the command line itself. */
const helps = new Map<string, string>();

async function readHelps(...command: string[]): Promise<void> {
  const { exitCode, stdout } = await runCli([...command, '--help']);
  expect({ command, exitCode }).toEqual({ command, exitCode: 0 });
  helps.set(command.join(' '), stdout);
  const [, list = ''] = stdout.split('\nCommands:\n');
  for (const name of found(list, /^ {2}([a-z-]+)/gm)) if (name !== 'help') await readHelps(...command, name);
}

beforeAll(() => readHelps());

/** What the first group of a pattern matches. */
function found(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, group]) => group ?? '');
}

/** The cells of the tables of a page, or of one of its sections, by the first cell. */
function rowsOf(page: string, heading?: string): Map<string, string[]> {
  const text = read(page);
  const section = heading === undefined ? text : (text.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '');
  const rows = found(section, /^\|(.*)\|$/gm).map((row) => row.split('|').map((cell) => cell.trim()));
  return new Map(rows.map(([first = '', ...rest]) => [first, rest]));
}

/** The names between backticks in the first column of the tables, sorted. */
function firstColumnOf(page: string, heading?: string): string[] {
  return [...rowsOf(page, heading).keys()].flatMap((cell) => found(cell, /`([^`]+)`/g)).sort();
}

/** The anchor that GitHub makes from a heading. */
const anchorOf = (heading: string) => (heading.toLowerCase().match(/[\w\- ]/g) ?? []).join('').replaceAll(' ', '-');

const anchorsOf = (page: string) => found(read(page), /^#+ (.+)$/gm).map(anchorOf);

/** The command lines of a page, in its code and between backticks. */
function commandLinesIn(text: string): string[] {
  const code = found(text.replaceAll('\\\n', ' '), /^```(?:sh)?\n([\s\S]*?)^```$/gm).join('');
  const prose = text.replace(/^```[\s\S]*?^```$/gm, '');
  return [...found(code, /(?:^|\s)npx follow-up ([^\n|#]+)/g), ...found(prose, /`(?:npx )?follow-up ([^`]+)`/g)];
}

/** The unknown parts of a command line: its command and its options. */
function unknownIn(commandLine: string): string[] {
  const words = commandLine.split(/\s+/);
  let length = 0;
  while (length < words.length && helps.has(words.slice(0, length + 1).join(' '))) length += 1;
  const help = helps.get(words.slice(0, length).join(' ')) ?? '';
  const known = new Set(help.match(/--[a-z][a-z-]*/g));
  const options = found(` ${commandLine}`, /\s(--[a-z][a-z-]*)/g).filter((option) => !known.has(option));
  // A group is followed by one of its commands, or stands alone.
  const follower = words[length] ?? '';
  const isMisspelt = help.includes('\nCommands:\n') && /^[a-z]/.test(follower);
  return [...(isMisspelt ? [follower] : []), ...options].map((what) => `${what} in "follow-up ${commandLine}"`);
}

const isFile = (path: string) => existsSync(join(ROOT, path));

function isGoodLink(page: string, target: string): boolean {
  const [path, anchor] = target.split('#');
  const file = path ? join(dirname(page), path) : page;
  return /^https?:/.test(target) || (isFile(file) && (!anchor || anchorsOf(file).includes(anchor)));
}

test.each([...pages, 'docs/llms.txt'])(
  '%s names only links, files, scripts and commands that exist, and its pictures are below 300 KiB',
  (page) => {
    const text = read(page);
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const files = /`((?:src|test|tools|deploy|docs|examples|packages|schemas|bin)\/[\w./-]+)`/g;
    const pictures = found(text, /!\[[^\]]+\]\(([^)]+)\)/g).map((path) => join(dirname(page), path));
    expect([
      ...found(text, /\bnpm ((?:start|test)\b|run [\w:-]+)/g).filter((run) => !(run.replace('run ', '') in scripts)),
      ...found(text, /\]\(([^)\s]+)\)/g).filter((target) => !isGoodLink(page, target)),
      ...found(text, files).filter((path) => !isFile(path)),
      ...commandLinesIn(text).flatMap(unknownIn),
      ...pictures.filter((path) => isFile(path) && statSync(join(ROOT, path)).size > 300 * 1024),
    ]).toEqual([]);
  },
);

test('the pages and headings that code, comments and alerts refer to exist', () => {
  const files = ['src', 'bin', 'test', 'tools', 'examples', 'packages', 'deploy']
    .flatMap((folder) => ['.ts', '.js', '.yaml', '.env', 'Dockerfile'].flatMap((ending) => filesBelow(folder, ending)))
    .filter((file) => !/^test\/docs\/|\/dist\//.test(file));
  const broken = files.flatMap((file) =>
    [...read(file).matchAll(/(?:(?:\/\/|\*|#) .*?\b|\b(?=docs\/))((?:[\w-]+\/)*[\w-]+\.md)(?:#([\w-]+)|, "([^"]+)")?/g)]
      .filter(([, page = '', anchor, heading]) => {
        if (!isFile(page)) return true;
        const wanted = anchor ?? anchorOf(heading ?? '');
        return wanted !== '' && !anchorsOf(page).includes(wanted);
      })
      .map(([reference]) => `${file}: ${reference}`),
  );
  expect(broken).toEqual([]);
});

test.each(['docs/README.md', 'docs/llms.txt'])('%s lists every page of the documentation', (index) => {
  const listed = new Set(found(read(index), /\]\(([^)#]+\.md)/g).map((path) => join(dirname(index), path)));
  expect(filesBelow('docs', '.md').filter((page) => page !== 'docs/README.md' && !listed.has(page))).toEqual([]);
});

/** Its TypeScript is that of examples, which tsc compiles. */
const QUOTES_EXAMPLES = 'docs/how-to/call-from-a-workflow.md';

test('the TypeScript of all pages compiles against the types of the package', { tags: 'long' }, () => {
  const own = pages.filter((page) => page !== QUOTES_EXAMPLES);
  const snippets = own.flatMap((page) => found(read(page), /^```ts\n([\s\S]*?)^```$/gm));
  expect(snippets.length).toBeGreaterThan(1);
  const paths = {
    'agent-follow-up/worker': [join(ROOT, 'src/worker.ts')],
    'agent-follow-up/*': [join(ROOT, 'src/*/index.ts')],
    'agent-follow-up-client': [join(ROOT, 'src/client/index.ts')],
  };
  expect(compilerErrors(snippets, { paths })).toEqual([]);
});

test.each([
  ['python', pages, ['examples/python/follow_ups.py', 'examples/python/child_workflow.py']],
  ['go', pages, ['examples/go/main.go', 'examples/go/child-workflow/main.go']],
  ['java', pages, ['examples/java/src/main/java/FollowUps.java']],
  [
    'ts',
    [QUOTES_EXAMPLES],
    ['child-workflow/workflows', 'activity/activities', 'activity/workflows'].map((name) => `examples/${name}.ts`),
  ],
])('the examples contain the %s code of the pages', (language, quoting, examples) => {
  const trimmed = (text: string) => text.trim().replace(/^[^\S\n]+|[^\S\n]+$/gm, '');
  const fence = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm');
  const snippets = quoting.flatMap((page) => found(read(page), fence)).map(trimmed);
  expect(snippets.length).toBeGreaterThan(0);
  const sources = examples.map((example) => trimmed(read(example)));
  expect(snippets.filter((snippet) => !sources.some((source) => source.includes(snippet)))).toEqual([]);
});

test('the hosted workflows run the gate, the long tests and the full tests', () => {
  const runs = (file: string) => found(read(`.github/workflows/${file}`), /^ +- run: (.+)$/gm);
  expect(runs('ci.yml')).toContain('.ci/run');
  expect(runs('long.yml')).toEqual(expect.arrayContaining(['npm run test:long', 'npm run test:full']));
});

test('docs/reference/commands.md is the help of every command: "npx vitest run test/docs/docs.test.ts -u" writes it', async () => {
  const commands = [...helps].filter(([, help]) => !help.includes('\nCommands:\n'));
  const links = commands.map(([name]) => `[${name}](#${anchorOf(`follow-up ${name}`)})`);
  const page = [
    '# Commands\n',
    '<!-- Generated from the help of the command line: npx vitest run test/docs/docs.test.ts -u -->\n',
    `${links.join(' · ')}\n`,
    'In a checkout, write `npx follow-up`. Each command has `--help`. `--json` prints one JSON document (lists: one per line) on stdout and everything else on stderr. [Errors](errors.md#exit-codes) lists the exit codes, and [Settings](settings.md#temporal) says how commands find Temporal.\n',
    ...commands.map(([name, help]) => `## follow-up ${name}\n\n\`\`\`text\n${ownPartOf(help)}\n\`\`\`\n`),
  ].join('\n');
  const formatted = await format(page, { parser: 'markdown', printWidth: 120, proseWrap: 'preserve' });
  await expect(formatted).toMatchFileSnapshot(join(ROOT, 'docs/reference/commands.md'));
});

/** The help of a command without the options that every command has. */
function ownPartOf(help: string): string {
  const own = help.replace(/^ {2}(--json|-h, --help) .*\n?(^ {6,}.*\n?)*/gm, '');
  return own.replace(/\nOptions:\n(?=\n|$)/, '').trimEnd();
}

test('docs/reference/settings.md documents every setting with its default, and no variable that nobody reads', () => {
  type Tree = Setting<unknown> | { [key: string]: Tree };
  const settingsIn = (tree: Tree): Setting<unknown>[] =>
    'schema' in tree ? [tree as Setting<unknown>] : Object.values(tree).flatMap(settingsIn);
  const { clientSettings, workerSettings, versionSettings, dataConverterSetting } = settingsTables;
  const settings = settingsIn({ clientSettings, workerSettings, versionSettings, dataConverterSetting });
  expect(settings.length).toBeGreaterThan(15);
  const page = 'docs/reference/settings.md';
  const rows = rowsOf(page);
  for (const { name, fallback, schema } of settings) {
    expect([...rows.keys()]).toContain(`\`${name}\``);
    const text = /^`([^`]+)`$/.exec(rows.get(`\`${name}\``)?.[0] ?? '')?.[1];
    expect(text === undefined ? undefined : schema.parse(text), name).toEqual(fallback === '' ? undefined : fallback);
  }
  const NAME = '(?:AGENT_JOBS|FOLLOW_UP|TEMPORAL)_(?:[A-Z]+_)*[A-Z]+';
  const namesIn = (text: string) => found(text, new RegExp(`\\b(${NAME})\\b`, 'g'));
  const code = ['src/config', 'src/dev-server', 'node_modules/@temporalio/envconfig/lib'].flatMap((folder) =>
    [...filesBelow(folder, '.ts'), ...filesBelow(folder, '.js')].map(read),
  );
  const known = new Set(code.flatMap(namesIn));
  const documented = namesIn(read(page));
  expect(documented.filter((name) => !known.has(name))).toEqual([]);
  const own = filesBelow('src/config', '.ts').flatMap((path) => found(read(path), new RegExp(`'(${NAME})'`, 'g')));
  expect(own.filter((name) => !documented.includes(name))).toEqual([]);
});

describe('the reference has', () => {
  const INPUTS = 'docs/reference/inputs.md';
  const RESULTS = 'docs/reference/results.md';
  const ERRORS = 'docs/reference/errors.md';

  /** The fields of a JSON Schema, those of `poll` with their own names. */
  function fieldsOf(name: string): string[] {
    interface Schema {
      properties?: Record<string, Schema>;
      allOf?: Schema[];
      anyOf?: Schema[];
    }
    const fieldsIn = ({ properties = {}, allOf = [], anyOf = [] }: Schema): string[] => [
      ...Object.entries(properties).flatMap(([field, inner]) =>
        field === 'poll' ? fieldsIn(inner).map((each) => `poll.${each}`) : [field],
      ),
      ...[...allOf, ...anyOf].flatMap(fieldsIn),
    ];
    return [...new Set(fieldsIn(JSON.parse(read(`schemas/${name}.schema.json`)) as Schema))].sort();
  }

  test.each([
    ['an input', INPUTS, 'Follow-up', 'follow-up-input'],
    ['a batch', INPUTS, 'Batch', 'follow-up-batch-input'],
    ['a result', RESULTS, 'Follow-up', 'follow-up-result'],
    ['the result of a batch', RESULTS, 'Batch', 'follow-up-batch-result'],
    ['progress', RESULTS, 'Progress', 'follow-up-progress'],
  ])('every field of %s', (_what, page, heading, schema) => {
    expect(firstColumnOf(page, heading)).toEqual(fieldsOf(schema));
  });

  test.each(Object.entries(followUpSettings))('the default, the bounds and the meaning of %s', (field, setting) => {
    const bounds = 'min' in setting ? `\`${setting.min}\` to \`${setting.max}\`` : (expect.any(String) as string);
    const cells = [`\`${setting.default}\``, bounds, setting.meaning];
    expect(rowsOf(INPUTS).get(`\`${field}\``)).toEqual(cells);
  });

  test('every message that callers send, with its name on the wire', () => {
    const messages = Object.values(contract).flatMap((value) =>
      typeof value === 'object' && 'type' in value && 'name' in value ? [value.name] : [],
    );
    expect(messages.length).toBeGreaterThan(8);
    expect(firstColumnOf(INPUTS, 'Messages')).toEqual(messages.sort());
  });

  test('every failure type, detail of a failure, exit code, error of the library and refusal', () => {
    const types = Object.values(contract.FailureType);
    expect(firstColumnOf(ERRORS, 'Failure types')).toEqual([...types, ...fieldsOf('follow-up-failure')].sort());
    const codes = [...rowsOf(ERRORS, 'Exit codes').keys()].map(Number).filter((code) => !Number.isNaN(code));
    expect(codes).toEqual(Object.values(ExitCode));
    const errors = Object.keys(client).filter((name) => name.endsWith('Error') && name !== 'FollowUpClientError');
    expect(firstColumnOf(ERRORS, 'Errors of the library')).toEqual(errors.sort());
    const refusals = found(read('src/client/client-errors.ts'), /^ {2}(\w+): \(_?id/gm);
    expect(refusals).toContain('BatchEnded');
    expect(firstColumnOf(ERRORS, 'Refusals')).toEqual(refusals.sort());
  });

  test('every state and search attribute, and the guide to blocked follow-ups every reason', () => {
    expect(firstColumnOf(RESULTS, 'States')).toEqual([...contract.followUpStates].sort());
    for (const { name } of Object.values(contract.SearchAttribute)) expect(read(RESULTS)).toContain(`\`${name}\``);
    const reasons = contract.waitReasons.filter((reason) => reason !== 'slot' && reason !== 'job-busy');
    const blocks = ['budget-stopped', 'budget-silent', 'service'];
    const named = [...reasons, ...blocks, 'waiting-for-budget', 'waiting-for-job', 'reconciling'];
    expect(firstColumnOf('docs/how-to/unblock-a-follow-up.md')).toEqual(expect.arrayContaining<string>(named));
  });

  test('every method of the library', () => {
    const { FollowUpClient, FollowUpHandle, BatchHandle, Schedules, BudgetHandle } = client;
    const documented = new Set(['constructor', ...found(read('docs/reference/library.md'), /\b(\w+)\(/g)]);
    for (const { prototype } of [FollowUpClient, FollowUpHandle, BatchHandle, Schedules, BudgetHandle])
      expect(Object.getOwnPropertyNames(prototype).filter((method) => !documented.has(method))).toEqual([]);
  });

  test('every metric of follow-ups and of budgets', () => {
    const files = ['worker/metrics', 'workflows/follow-up', 'workflows/follow-up-port', 'workflows/follow-up-batch'];
    const made = files.map((name) => read(`src/${name}.ts`)).join('\n');
    const times = made.matchAll(/createHistogram\(\s*'(\w+)',\s*'\w+',\s*'(\w+)'/g);
    const ofFollowUps = [
      ...found(made, /createCounter\(\s*'(\w+)'/g).map((name) => `${name}_total`),
      ...[...times].map(([, name = '', unit = '']) => `${name}_${unit}`),
    ];
    const budgets = read('src/workflows/budget-metrics.ts');
    const ofBudgets = [
      ...found(budgets, /\bcounter\(\s*'(\w+)'/g).map((name) => `follow_up_budget_${name}_total`),
      ...found(budgets, /\bgauge\(\s*'(\w+)'/g).map((name) => `follow_up_budget_${name}`),
    ];
    expect([ofFollowUps.length > 4, ofBudgets.length > 8]).toEqual([true, true]);
    expect(firstColumnOf('docs/reference/metrics.md', 'Metrics of a worker')).toEqual(ofFollowUps.sort());
    expect(firstColumnOf('docs/reference/metrics.md', 'Metrics of budgets')).toEqual(ofBudgets.sort());
  });
});
