import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { format } from 'prettier';
import ts from 'typescript';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import type { Setting } from '../../src/config/settings-reader.js';
import { runCli } from '../cli/run-cli.js';
import { filesBelow, pages, read, ROOT } from './pages.js';

/** The help of every command and group, by its words. The key `''` is the command line itself. */
const helps = new Map<string, string>();

async function readHelps(...command: string[]): Promise<void> {
  const { exitCode, stdout } = await runCli([...command, '--help']);
  expect({ command, exitCode }).toEqual({ command, exitCode: 0 });
  helps.set(command.join(' '), stdout);
  const [, list = ''] = stdout.split('\nCommands:\n');
  const names = [...list.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name]) => name ?? '');
  for (const name of names) if (name !== 'help') await readHelps(...command, name);
}

beforeAll(() => readHelps());

/** The unknown parts of a command line: its command and its options. */
function unknownIn(commandLine: string): string[] {
  const words = commandLine.split(/\s+/);
  let command = '';
  for (const word of words) {
    const next = `${command} ${word}`.trim();
    if (!helps.has(next)) break;
    command = next;
  }
  const help = helps.get(command) ?? '';
  const known = new Set(help.match(/--[a-z][a-z-]*/g));
  const options = (commandLine.match(/(?<=\s)--[a-z][a-z-]*/g) ?? []).filter((option) => !known.has(option));
  const isGroup = help.includes('\nCommands:\n');
  // A group is followed by one of its commands, or stands alone.
  const [follower = ''] = words.slice(command === '' ? 0 : command.split(' ').length);
  const misspelt = isGroup && /^[a-z]/.test(follower) ? [follower] : [];
  return [...misspelt, ...options].map((what) => `${what} in "follow-up ${commandLine}"`);
}

/** The command lines of a page, in its code and between backticks. */
function commandLinesIn(text: string): string[] {
  const blocks = [...text.matchAll(/^```(?:sh)?\n([\s\S]*?)^```$/gm)].map(([, code]) => code ?? '');
  const inBlocks = blocks.flatMap((code) =>
    [...code.replaceAll('\\\n', ' ').matchAll(/(?:^|\s)npx follow-up ([^\n|#]+)/g)].map(([, line]) => line ?? ''),
  );
  const prose = text.replace(/^```[\s\S]*?^```$/gm, '');
  const inProse = [...prose.matchAll(/`(?:npx )?follow-up ([^`]+)`/g)].map(([, line]) => line ?? '');
  return [...inBlocks, ...inProse];
}

/** The compiler's errors for code that imports this package. */
function problemsOf(snippets: readonly string[]): string[] {
  const sources = new Map(snippets.map((code, index) => [join(ROOT, `snippet-${index}.ts`), code]));
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), (path) => readFileSync(path, 'utf8'));
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: [] }, ts.sys, ROOT);
  const allOptions: ts.CompilerOptions = {
    ...options,
    noEmit: true,
    paths: {
      'agent-follow-up/client': [join(ROOT, 'src/client/index.ts')],
      'agent-follow-up/contract': [join(ROOT, 'src/contract/index.ts')],
      'agent-follow-up/worker': [join(ROOT, 'src/worker.ts')],
      'agent-follow-up-client': [join(ROOT, 'src/client/index.ts')],
    },
  };
  const host = ts.createCompilerHost(allOptions);
  const { readFile, fileExists } = host;
  host.readFile = (path) => sources.get(path) ?? readFile(path);
  host.fileExists = (path) => sources.has(path) || fileExists(path);
  const program = ts.createProgram([...sources.keys()], allOptions, host);
  const problems = [...sources.keys()].flatMap((path) => {
    const source = program.getSourceFile(path);
    return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
  });
  return problems.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

/** The names between backticks in the first column of all tables of a page. */
function firstColumnOf(page: string, heading?: string): string[] {
  const text = read(page);
  const section = heading === undefined ? text : (text.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? '');
  const cells = [...section.matchAll(/^\| ([^|]+) \|/gm)].map(([, cell]) => cell ?? '');
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name ?? ''));
}

/** The anchor that GitHub makes from a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');

describe.each([...pages, 'docs/llms.txt'])('%s', (page) => {
  const text = read(page);

  test('names only npm scripts that exist', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const named = [...text.matchAll(/\bnpm (?:run ([\w:-]+)|(start|test)\b)/g)].map(([, run, short]) => run ?? short);
    expect(named.filter((name) => name !== undefined && !(name in scripts))).toEqual([]);
  });

  test('links only to files and headings that exist', () => {
    const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target ?? '');
    const broken = targets.filter((target) => {
      if (/^https?:/.test(target)) return false;
      const [path, anchor] = target.split('#');
      const file = path ? join(dirname(page), path) : page;
      if (!existsSync(join(ROOT, file))) return true;
      if (!anchor) return false;
      const headings = [...read(file).matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchorOf(heading ?? ''));
      return !headings.includes(anchor);
    });
    expect(broken).toEqual([]);
  });

  test('names only folders and files of the repository that exist', () => {
    const paths = [...text.matchAll(/`((?:src|test|tools|deploy|docs|examples|packages|schemas|bin)\/[\w./-]+)`/g)];
    expect(paths.map(([, path]) => path ?? '').filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });

  test('names only commands and options that the command line has', () => {
    expect(commandLinesIn(text).flatMap(unknownIn)).toEqual([]);
  });

  test('has pictures below 300 KiB', () => {
    const pictures = [...text.matchAll(/!\[[^\]]+\]\(([^)]+)\)/g)].map(([, path]) => path ?? '');
    const large = pictures.filter((path) => readFileSync(join(ROOT, dirname(page), path)).length > 300 * 1024);
    expect(large).toEqual([]);
  });
});

test('the TypeScript of all pages compiles against the types of the package', { tags: 'long' }, () => {
  const snippets = pages.flatMap((page) =>
    [...read(page).matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code]) => code ?? ''),
  );
  expect(snippets.length).toBeGreaterThan(1);
  expect(problemsOf(snippets)).toEqual([]);
});

test('README.md has a picture, and at most 1,200 words', () => {
  const text = read('README.md');
  expect(text).toMatch(/!\[[^\]]+\]\(docs\/images\//);
  expect(text.split(/\s+/).length).toBeLessThanOrEqual(1_200);
});

test.each([
  ['python', 'examples/python/follow_ups.py'],
  ['go', 'examples/go/main.go'],
  ['java', 'examples/java/src/main/java/FollowUps.java'],
])('the example contains the %s code of all pages', (language, example) => {
  const trimmed = (text: string) =>
    text
      .trim()
      .split('\n')
      .map((line) => line.trim())
      .join('\n');
  const fence = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm');
  const snippets = pages.flatMap((page) => [...read(page).matchAll(fence)].map(([, code]) => code ?? ''));
  expect(snippets.length).toBeGreaterThan(0);
  for (const snippet of snippets) expect(trimmed(read(example))).toContain(trimmed(snippet));
});

test.each([
  ['ci.yml', 'ci', '.ci/run'],
  ['long.yml', 'long', 'npm run test:long'],
  ['long.yml', 'full', 'npm run test:full'],
])('the hosted workflow %s, job %s, runs %s', (file, job, command) => {
  const { jobs } = parse(read(`.github/workflows/${file}`)) as { jobs: Record<string, { steps: { run?: string }[] }> };
  expect(jobs[job]?.steps.map(({ run }) => run)).toContain(command);
});

test('the index lists every page of the documentation', () => {
  const listed = (index: string) =>
    [...read(index).matchAll(/\]\(([^)#]+\.md)/g)].map(([, path]) => join(dirname(index), path ?? ''));
  const all = new Set([...listed('docs/README.md'), ...listed('docs/decisions/README.md')]);
  const missing = filesBelow('docs', '.md').filter((page) => page !== 'docs/README.md' && !all.has(page));
  expect(missing).toEqual([]);
});

test('docs/reference/commands.md is the help of every command: "npx vitest run test/docs -u" writes it', async () => {
  const commands = [...helps].filter(([, help]) => !help.includes('\nCommands:\n'));
  const about = (help: string) => help.split('\n\n')[1]?.split('\n').join(' ').trim() ?? '';
  const anchor = (name: string) => anchorOf(`follow-up ${name}`);
  const index = commands.map(([name, help]) => `| [${name}](#${anchor(name)}) | ${about(help)} |`);
  const sections = commands.map(([name, help]) => `## follow-up ${name}\n\n\`\`\`text\n${help.trimEnd()}\n\`\`\`\n`);
  const page = [
    '# Commands\n',
    '<!-- Generated from the help of the command line: npx vitest run test/docs -u -->\n',
    'In a checkout, write `npx follow-up` instead of `follow-up`. `ID` and `workflowId` are workflow ids, such as `follow-up/demo/job-1/parser-tests`. With `--json`, a command prints JSON on stdout and everything else on stderr. [Errors](errors.md#exit-codes) lists the exit codes, and [Settings](settings.md) says how commands find Temporal.\n',
    ['| follow-up … | what it does |', '|---|---|', ...index].join('\n') + '\n',
    ...sections,
  ].join('\n');
  const formatted = await format(page, { parser: 'markdown', printWidth: 120, proseWrap: 'preserve' });
  await expect(formatted).toMatchFileSnapshot(join(ROOT, 'docs/reference/commands.md'));
});

describe('docs/reference/settings.md', () => {
  const namesIn = (text: string) =>
    new Set(text.match(/\b(?:AGENT_JOBS|FOLLOW_UP|TEMPORAL)_(?:[A-Z]+_)*[A-Z]+\b/g) ?? []);
  const documented = namesIn(read('docs/reference/settings.md'));
  const settings = new Set(
    filesBelow('src/config', '.ts').flatMap((path) =>
      [...read(path).matchAll(/'((?:AGENT_JOBS|FOLLOW_UP|TEMPORAL)_(?:[A-Z]+_)*[A-Z]+)'/g)].map(
        ([, name]) => name ?? '',
      ),
    ),
  );

  test('documents every setting', () => {
    expect(settings.size).toBeGreaterThan(15);
    expect([...settings].filter((name) => !documented.has(name))).toEqual([]);
  });

  test('documents no setting that does not exist', () => {
    const devServer = [...filesBelow('src/dev-server', '.ts'), ...filesBelow('test/support', '.ts')].flatMap((path) => [
      ...namesIn(read(path)),
    ]);
    const temporal = filesBelow('node_modules/@temporalio/envconfig/lib', '.js').flatMap((path) => [
      ...namesIn(read(path)),
    ]);
    const known = new Set([...settings, ...devServer, ...temporal]);
    expect([...documented].filter((name) => !known.has(name))).toEqual([]);
  });

  test('gives the defaults of the configuration', async () => {
    const tables = await import('../../src/config/settings.js');
    type Tree = Setting<unknown> | { [key: string]: Tree };
    const settingsIn = (tree: Tree): Setting<unknown>[] =>
      'schema' in tree ? [tree as Setting<unknown>] : Object.values(tree).flatMap(settingsIn);
    const { clientSettings, workerSettings, versionSettings, dataConverterSetting } = tables;
    const settings = settingsIn({ clientSettings, workerSettings, versionSettings, dataConverterSetting });
    const rows = new Map(
      [...read('docs/reference/settings.md').matchAll(/^\| `([A-Z_]+)` +\| ([^|]*?) +\|/gm)].map(([, name, value]) => [
        name,
        /^`([^`]+)`$/.exec(value ?? '')?.[1],
      ]),
    );
    for (const { name, fallback, schema } of settings) {
      expect(rows.has(name), name).toBe(true);
      const text = rows.get(name);
      expect(text === undefined ? undefined : schema.parse(text), name).toEqual(fallback === '' ? undefined : fallback);
    }
  });
});

describe('the reference has', () => {
  const schemaFields = (name: string, prefix = ''): string[] => {
    const { properties } = JSON.parse(read(`schemas/${name}.schema.json`)) as {
      properties: Record<string, { anyOf?: { properties?: object }[] }>;
    };
    return Object.entries(properties).flatMap(([field, { anyOf: [{ properties: inner } = {}] = [] }]) =>
      inner && field === 'poll' ? Object.keys(inner).map((key) => `${prefix}${field}.${key}`) : [`${prefix}${field}`],
    );
  };

  test('every field of an input, with its default', async () => {
    const { followUpInputSchema, parseDurationMs } = await import('../../src/contract/index.js');
    expect(firstColumnOf('docs/reference/inputs.md', 'Follow-up').sort()).toEqual(
      schemaFields('follow-up-input').sort(),
    );
    const section = read('docs/reference/inputs.md').split('\n## Batch')[0] ?? '';
    const defaults = new Map(
      [...section.matchAll(/^\| `([\w.]+)` +\| `([^`]+)`/gm)].map(([, field = '', value = '']) => [field, value]),
    );
    const parsed = followUpInputSchema.parse({ projectId: 'p', jobId: 'j', prompt: 'x' });
    const ms = (field: string) => parseDurationMs(defaults.get(field));
    expect({
      ...{ projectId: 'p', jobId: 'j', prompt: 'x', lane: defaults.get('lane') },
      ...{ onUnknownDelivery: defaults.get('onUnknownDelivery'), whenActive: defaults.get('whenActive') },
      poll: {
        initialIntervalMs: ms('poll.initialInterval'),
        maxIntervalMs: ms('poll.maxInterval'),
        backoffCoefficient: Number(defaults.get('poll.backoffCoefficient')),
      },
      ...{ settleTimeMs: ms('settleTime'), prLinkGraceMs: ms('prLinkGrace'), jobTimeoutMs: ms('jobTimeout') },
      budgetWaitTimeoutMs: ms('budgetWaitTimeout'),
    }).toEqual(parsed);
  });

  test('every setting of an input, with its bounds and its meaning from the schema', async () => {
    const { followUpSettings } = await import('../../src/contract/follow-up-input.js');
    const rows = new Map(
      [...read('docs/reference/inputs.md').matchAll(/^\| `([\w.]+)` +\|(.*)\|$/gm)].map(([, field = '', rest = '']) => [
        field,
        rest.split('|').map((cell) => cell.trim()),
      ]),
    );
    for (const [field, setting] of Object.entries(followUpSettings)) {
      const bounds = 'min' in setting ? `\`${setting.min}\` to \`${setting.max}\`` : (expect.any(String) as string);
      expect({ field, cells: rows.get(field) }).toEqual({
        field,
        cells: [`\`${setting.default}\``, bounds, setting.meaning],
      });
    }
  });

  test('every field of a batch', () => {
    const { anyOf } = JSON.parse(read('schemas/follow-up-batch-input.schema.json')) as {
      anyOf: { properties: object }[];
    };
    const fields = new Set(anyOf.flatMap(({ properties }) => Object.keys(properties)));
    expect(firstColumnOf('docs/reference/inputs.md', 'Batch').sort()).toEqual([...fields].sort());
  });

  test('every field of a result', () => {
    expect(firstColumnOf('docs/reference/results.md', 'Follow-up').sort()).toEqual(
      schemaFields('follow-up-result').sort(),
    );
    expect(firstColumnOf('docs/reference/results.md', 'Batch').sort()).toEqual(
      schemaFields('follow-up-batch-result').sort(),
    );
  });

  test('every field of progress and of the details of a failure', async () => {
    const fieldsIn = (schema: object): string[] => {
      const { properties = {}, ...rest } = schema as { properties?: object; allOf?: object[]; anyOf?: object[] };
      const inner = [...(rest.allOf ?? []), ...(rest.anyOf ?? [])].flatMap(fieldsIn);
      return [...new Set([...Object.keys(properties), ...inner])].sort();
    };
    const schema = (name: string) => JSON.parse(read(`schemas/${name}.schema.json`)) as object;
    expect(firstColumnOf('docs/reference/results.md', 'Progress').sort()).toEqual(
      fieldsIn(schema('follow-up-progress')),
    );
    const { FailureType } = await import('../../src/contract/index.js');
    const types = new Set<string>(Object.values(FailureType));
    const details = firstColumnOf('docs/reference/errors.md', 'Failure types').filter((name) => !types.has(name));
    expect(details.sort()).toEqual(fieldsIn(schema('follow-up-failure')));
  });

  test('every message that callers send, with its name on the wire', async () => {
    const contract = await import('../../src/contract/index.js');
    const messages = Object.values(contract).flatMap((value) =>
      typeof value === 'object' && 'type' in value && 'name' in value ? [value.name] : [],
    );
    expect(messages.length).toBeGreaterThan(8);
    const named = firstColumnOf('docs/reference/messages.md');
    expect(named.sort()).toEqual([...messages, 'followUp', 'followUpBatch'].sort());
  });

  test('every failure type, exit code and error of the library', async () => {
    const { FailureType } = await import('../../src/contract/index.js');
    const types = new Set<string>(Object.values(FailureType));
    const named = firstColumnOf('docs/reference/errors.md', 'Failure types').filter((name) => types.has(name));
    expect(named.sort()).toEqual([...types].sort());
    const { ExitCode } = await import('../../src/cli/cli.js');
    const codes = [...read('docs/reference/errors.md').matchAll(/^\| (\d+) +\|/gm)].map(([, code]) => Number(code));
    expect(codes).toEqual(Object.values(ExitCode));
    const client = await import('../../src/client/index.js');
    const errors = Object.keys(client).filter((name) => name.endsWith('Error') && name !== 'FollowUpClientError');
    expect(firstColumnOf('docs/reference/errors.md', 'Errors of the library').sort()).toEqual(errors.sort());
    const refusals = [...read('src/client/errors.ts').matchAll(/^ {2}(\w+): \(_?id/gm)].map(([, type]) => type);
    expect(refusals).toContain('BatchEnded');
    expect(firstColumnOf('docs/reference/errors.md', 'Refusals').sort()).toEqual(refusals.sort());
  });

  test('every state and search attribute, and the guide to blocked follow-ups every reason', async () => {
    const { followUpStates, SearchAttribute, waitReasons } = await import('../../src/contract/index.js');
    const named = firstColumnOf('docs/reference/states.md');
    const attributes = Object.values(SearchAttribute).map(({ name }) => name);
    expect(named.sort()).toEqual([...followUpStates, ...attributes].sort());
    const reasons = waitReasons.filter((reason) => reason !== 'slot' && reason !== 'job-busy');
    expect(firstColumnOf('docs/how-to/unblock-a-follow-up.md')).toEqual(
      expect.arrayContaining<string>([...reasons, 'waiting-for-budget', 'waiting-for-job', 'reconciling', 'service']),
    );
  });

  test('every method of the library', async () => {
    const client = await import('../../src/client/index.js');
    const text = read('docs/reference/library.md');
    const undocumented = (name: 'FollowUpClient' | 'FollowUpHandle' | 'BatchHandle' | 'Schedules' | 'BudgetHandle') =>
      Object.getOwnPropertyNames(client[name].prototype).filter(
        (method) => method !== 'constructor' && !new RegExp(`\\b${method}\\(`).test(text),
      );
    expect([
      ...undocumented('FollowUpClient'),
      ...undocumented('FollowUpHandle'),
      ...undocumented('BatchHandle'),
      ...undocumented('Schedules'),
      ...undocumented('BudgetHandle'),
    ]).toEqual([]);
  });

  test('every metric of the service calls, the asks, the ends and the holds', () => {
    const made = [
      ...['src/worker/metrics.ts', 'src/workflows/follow-up.ts', 'src/workflows/follow-up-port.ts'],
      'src/workflows/follow-up-batch.ts',
    ]
      .map(read)
      .join('\n');
    const metrics = [
      ...[...made.matchAll(/createCounter\(\s*'(\w+)'/g)].map(([, name]) => `${name}_total`),
      ...[...made.matchAll(/createHistogram\(\s*'(\w+)',\s*'\w+',\s*'(\w+)'/g)].map(
        ([, name, unit]) => `${name}_${unit}`,
      ),
    ];
    expect(metrics.length).toBeGreaterThan(4);
    const named = firstColumnOf('docs/reference/metrics.md', 'Metrics of a worker').filter(
      (name) => !name.endsWith('…'),
    );
    expect(named.sort()).toEqual(metrics.sort());
  });

  test('every metric of the budgets', () => {
    const made = read('src/workflows/budget-metrics.ts');
    const metrics = [
      ...[...made.matchAll(/\bcounter\(\s*'(\w+)'/g)].map(([, name]) => `follow_up_budget_${name}_total`),
      ...[...made.matchAll(/\bgauge\(\s*'(\w+)'/g)].map(([, name]) => `follow_up_budget_${name}`),
    ];
    expect(metrics.length).toBeGreaterThan(8);
    const named = firstColumnOf('docs/reference/metrics.md', 'Metrics of budgets').filter((name) =>
      name.startsWith('follow_up_'),
    );
    expect(named.sort()).toEqual(metrics.sort());
  });
});

test('the pages and headings that comments refer to exist', () => {
  const files = ['src', 'bin', 'test', 'bench', 'chaos', 'mutants', 'simulation', 'scripts', 'examples'].flatMap(
    (folder) => (existsSync(join(ROOT, folder)) ? [...filesBelow(folder, '.ts'), ...filesBelow(folder, '.js')] : []),
  );
  const broken = files.flatMap((file) => {
    const references = [...read(file).matchAll(/(?:\/\/|\*) .*?\b((?:[\w-]+\/)*[\w-]+\.md)(?:, "([^"]+)")?/g)];
    return references
      .filter(([, page, heading]) => {
        if (page === undefined || !existsSync(join(ROOT, page))) return true;
        return heading !== undefined && !new RegExp(`^#+ ${heading}$`, 'm').test(read(page));
      })
      .map(([reference]) => `${file}: ${reference}`);
  });
  expect(broken).toEqual([]);
});
