import { chmod, mkdir, readdir, rename, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { childEnvironment, isExecutable, type Environment, type OnProgress } from './environment.js';
import { fetchOnce } from './fetch-once.js';
import { runCommand } from './run-command.js';
import { TEMPORAL_SDK_VERSION } from './versions.js';

/** What the SDK can download. */
export type SdkDownload = 'dev-server' | 'time-skipping';

/** The SDK's first byte must be here by then: a network that drops packets would hold its client up for minutes. */
const FIRST_BYTE_TIMEOUT_MS = 15_000;
/** And it must go on coming. */
const STALL_TIMEOUT_MS = 20_000;
const DOWNLOAD_TIMEOUT_MS = 600_000;

const FILE_NAME_PREFIX = { 'dev-server': 'temporal-', 'time-skipping': 'temporal-test-server-' } as const;
const DIRECTORY_NAME = { 'dev-server': 'temporal-cli', 'time-skipping': 'temporal-test-server' } as const;

/**
 * The SDK offers its download only as a part of starting a server, and starting one installs the SDK's runtime, which
 * can be done once a process with settings that are the worker's to choose. Hence a process of its own.
 */
const DOWNLOAD_SCRIPT = `
const [modulePath, type, downloadDir] = process.argv.slice(1);
const { TestWorkflowEnvironment } = require(modulePath);
const server = { executable: { type: 'cached-download', downloadDir, ttl: '3650d' } };
const started = type === 'dev-server'
  ? TestWorkflowEnvironment.createLocal({ server })
  : TestWorkflowEnvironment.createTimeSkipping({ server });
started.then((env) => env.teardown()).then(() => process.exit(0), (error) => {
  process.stderr.write(String(error && error.message), () => process.exit(1));
});
`;

/** Path of what an earlier {@link downloadBySdk} brought into the cache, if any. */
export async function findSdkDownload(type: SdkDownload, cacheDirectory: string): Promise<string | undefined> {
  const directory = join(cacheDirectory, `${DIRECTORY_NAME[type]}-sdk-${TEMPORAL_SDK_VERSION}`);
  return await findDownloadedFile(type, directory);
}

/**
 * Lets the SDK download a server into the cache.
 *
 * @returns path of the executable
 * @throws Error with the SDK's reason, or when no byte arrives for a while
 */
export async function downloadBySdk(
  type: SdkDownload,
  options: { env: Environment; cacheDirectory: string; onProgress?: OnProgress | undefined },
): Promise<string> {
  const { env, cacheDirectory, onProgress } = options;
  const name = `${DIRECTORY_NAME[type]}-sdk-${TEMPORAL_SDK_VERSION}`;
  return await fetchOnce({
    cacheDirectory,
    name,
    onProgress,
    lookUp: () => findSdkDownload(type, cacheDirectory),
    fetch: async (temporaryDirectory) => {
      onProgress?.(`${name}: downloading by the Temporal SDK`);
      const modulePath = createRequire(import.meta.url).resolve('@temporalio/testing');
      const watch = watchDownload(temporaryDirectory, (bytes) =>
        onProgress?.(`${name}: ${Math.round(bytes / 1_048_576)} MiB so far`),
      );
      const result = await runCommand(process.execPath, ['-e', DOWNLOAD_SCRIPT, modulePath, type, temporaryDirectory], {
        env: childEnvironment(env),
        timeoutMs: DOWNLOAD_TIMEOUT_MS,
        tickMs: 500,
        onTick: watch,
      });
      const file = await findDownloadedFile(type, temporaryDirectory);
      // A server that was slow to start is an error of the script, but the download is whole: it is renamed when done.
      if (file === undefined)
        throw new Error(`temporal.download cannot be reached or refuses: ${lastCause(result.stderr)}`);
      const directory = join(cacheDirectory, name);
      await mkdir(directory, { recursive: true });
      const path = join(directory, FILE_NAME_PREFIX[type] + TEMPORAL_SDK_VERSION + executableSuffix());
      await chmod(file, 0o755);
      await rename(file, path);
      return path;
    },
  });
}

async function findDownloadedFile(type: SdkDownload, directory: string): Promise<string | undefined> {
  const names = await readdir(directory).catch(() => []);
  const name = names.find((each) => each.startsWith(FILE_NAME_PREFIX[type]) && !each.endsWith('.downloading'));
  if (name === undefined) return undefined;
  const path = join(directory, name);
  return (await isExecutable(path)) ? path : undefined;
}

/** Gives a reason to give up once the download has not moved for too long. */
function watchDownload(directory: string, onBytes: (bytes: number) => void) {
  let bytes = 0;
  let movedAtMs = 0;
  let toldAtMs = 0;
  return async (elapsedMs: number): Promise<string | undefined> => {
    const sizes = (await readdir(directory).catch(() => [])).map((name) =>
      stat(join(directory, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    );
    const now = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
    if (now > bytes) {
      bytes = now;
      movedAtMs = elapsedMs;
      if (elapsedMs - toldAtMs >= 5_000) {
        toldAtMs = elapsedMs;
        onBytes(bytes);
      }
    }
    if (bytes === 0 && elapsedMs > FIRST_BYTE_TIMEOUT_MS) return `no byte arrived within ${FIRST_BYTE_TIMEOUT_MS} ms`;
    // The whole file is there and the server starts: no more bytes are due.
    const whole = (await readdir(directory).catch(() => [])).some((name) => !name.endsWith('.downloading'));
    if (bytes > 0 && !whole && elapsedMs - movedAtMs > STALL_TIMEOUT_MS) {
      return `the download stood still for ${STALL_TIMEOUT_MS} ms`;
    }
    return undefined;
  };
}

/** The SDK repeats the address in front of every cause; the last one says what is wrong. */
function lastCause(text: string): string {
  return text.trim().split('): ').at(-1)?.trim() || 'it gave no reason';
}

function executableSuffix(): string {
  return process.platform === 'win32' ? '.exe' : '';
}
