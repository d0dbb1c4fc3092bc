import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, test } from 'vitest';
import { runCli } from '../cli/run-cli.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

/** Paths of the files below a folder that end with `ending`. */
function filesBelow(folder: string, ending: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(ending))
    .map((name) => join(folder, name));
}

const pages = [
  ...readdirSync(ROOT).filter((name) => name.endsWith('.md')),
  ...filesBelow('docs', '.md'),
  ...filesBelow('deploy', '.md'),
];

/** What the command line says to `--help`. */
async function helpOf(...command: string[]): Promise<string> {
  const { exitCode, stdout } = await runCli([...command, '--help']);
  expect({ command, exitCode }).toEqual({ command, exitCode: 0 });
  return stdout;
}

/** Heading as GitHub makes an anchor of it. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');

describe.each(pages)('%s', (page) => {
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
    const paths = [...text.matchAll(/`((?:src|test|bench|deploy|docs|examples|schemas|bin|scripts)\/[\w./-]+)`/g)];
    expect(paths.map(([, path]) => path ?? '').filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });
});

describe('docs/operations.md', () => {
  const namesIn = (text: string) =>
    new Set(text.match(/\b(?:AGENT_JOBS|FOLLOW_UP|TEMPORAL)_(?:[A-Z]+_)*[A-Z]+\b/g) ?? []);
  const documented = namesIn(read('docs/operations.md'));
  const settings = new Set(
    ['src/config.ts', ...filesBelow('src/config', '.ts')].flatMap((path) =>
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
    const embedded = [...filesBelow('src/embedded', '.ts'), ...filesBelow('test/support', '.ts')].flatMap((path) => [
      ...namesIn(read(path)),
    ]);
    const temporal = filesBelow('node_modules/@temporalio/envconfig/lib', '.js').flatMap((path) => [
      ...namesIn(read(path)),
    ]);
    const known = new Set([...settings, ...embedded, ...temporal]);
    expect([...documented].filter((name) => !known.has(name))).toEqual([]);
  });

  test('gives the defaults that the configuration has', async () => {
    const { configDefaults } = await import('../../src/config.js');
    const { parseDurationMs } = await import('../../src/contract/index.js');
    const rows = new Map(
      [...read('docs/operations.md').matchAll(/^\| `([A-Z_]+)` +\| `([^`]+)`/gm)].map(([, name, value]) => [
        name,
        value,
      ]),
    );
    const ms = (name: string) => parseDurationMs(rows.get(name));
    expect({
      budgetLimit: Number(rows.get('FOLLOW_UP_BUDGET_LIMIT')),
      budgetWindowMs: ms('FOLLOW_UP_BUDGET_WINDOW'),
      budgetReserve: Number(rows.get('FOLLOW_UP_BUDGET_RESERVE')),
      marginMs: ms('FOLLOW_UP_MARGIN'),
      drainMs: ms('FOLLOW_UP_DRAIN'),
      getTimeoutMs: ms('AGENT_JOBS_GET_TIMEOUT'),
      sendTimeoutMs: ms('FOLLOW_UP_SEND_TIMEOUT'),
      capacity: {
        cachedWorkflows: Number(rows.get('FOLLOW_UP_CACHED_WORKFLOWS')),
        workflowTasks: Number(rows.get('FOLLOW_UP_WORKFLOW_TASKS')),
        activities: Number(rows.get('FOLLOW_UP_ACTIVITIES')),
        pollers: Number(rows.get('FOLLOW_UP_POLLERS')),
      },
      status: rows.get('FOLLOW_UP_STATUS_ADDRESS'),
      logLevel: rows.get('FOLLOW_UP_LOG_LEVEL'),
      logFormat: rows.get('FOLLOW_UP_LOG_FORMAT'),
    }).toEqual({ ...configDefaults, status: `${configDefaults.status.host}:${configDefaults.status.port}` });
  });
});

describe('README.md', () => {
  const text = read('README.md');

  test('names only commands and options that the help names, and all commands', async () => {
    const help = await helpOf();
    const commands = [...help.matchAll(/^ {2}([a-z-]+) /gm)]
      .map(([, name]) => name ?? '')
      .filter((name) => name !== 'help');
    const named = [...text.matchAll(/`(?:npx )?follow-up ([a-z-]+)/g)].map(([, name]) => name ?? '');
    expect([...new Set(named)].sort()).toEqual(commands.sort());

    for (const [, line] of text.matchAll(/^\| `follow-up ([^|]+\|[^|]+)\|$/gm)) {
      const words = (line ?? '').split('`')[0]?.split(' ') ?? [];
      const command = words.filter((word) => /^[a-z][a-z-]*$/.test(word) && word !== 'sent');
      const usage = await helpOf(...command);
      expect(usage).toContain(`Usage: follow-up ${command.join(' ')} `);
      for (const option of line?.match(/--[a-z-]+/g) ?? []) expect(usage).toContain(option);
    }
  });

  test('has TypeScript that compiles against the types of the package', () => {
    const snippets = [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code]) => code ?? '');
    expect(snippets.length).toBeGreaterThan(0);
    const sources = new Map(snippets.map((code, index) => [join(ROOT, `readme-${index}.ts`), code]));
    const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), (path) => readFileSync(path, 'utf8'));
    const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: [] }, ts.sys, ROOT);
    const allOptions: ts.CompilerOptions = {
      ...options,
      noEmit: true,
      paths: {
        'agent-follow-up/client': [join(ROOT, 'src/client/index.ts')],
        'agent-follow-up/contract': [join(ROOT, 'src/contract/index.ts')],
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
    expect(problems.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))).toEqual([]);
  });

  test('has pictures below 300 KiB', () => {
    const pictures = [...text.matchAll(/!\[[^\]]+\]\(([^)]+)\)/g)].map(([, path]) => path ?? '');
    expect(pictures.length).toBeGreaterThan(0);
    const sizes = pictures.map((path) => readFileSync(join(ROOT, path)).length);
    expect(Math.max(...sizes)).toBeLessThan(300 * 1024);
  });
});

test('the pages and headings that comments refer to exist', () => {
  const files = ['src', 'bin', 'test', 'bench', 'scripts', 'examples'].flatMap((folder) =>
    existsSync(join(ROOT, folder)) ? [...filesBelow(folder, '.ts'), ...filesBelow(folder, '.js')] : [],
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
