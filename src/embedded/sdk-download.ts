import { readdir, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { cacheDirectory, childEnvironment } from './environment.js';
import { checkSha256, pinnedPath, type PinnedServer, putInPlace, thisPlatform } from './pins.js';
import type { FetchStep, ResolveOptions } from './resolve-steps.js';
import { runCommand } from './run-command.js';

/** The first byte must be here so long after the ask: a network that drops packets would hold the SDK's client up for minutes. */
const FIRST_BYTE_TIMEOUT_MS = 5_000;
/** And bytes must go on coming. */
const STALL_TIMEOUT_MS = 20_000;
const DOWNLOAD_TIMEOUT_MS = 600_000;
const PROGRESS_INTERVAL_MS = 5_000;

/**
 * The SDK offers its download only as a part of starting a server, and starting one installs the SDK's runtime, which
 * can be done once a process with settings that are the worker's to choose. Hence a process of its own. Its umask keeps
 * the file from being executable: the SDK cannot start it before its checksum is checked.
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

/** Lets the SDK download the pinned version. Where its executable is pinned for this platform, it must be that one. */
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
      // The script ends with an error in any case where the file may not be executed. A whole download is renamed.
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

/** Gives a reason to give up once the download has not moved for too long. */
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

/** The SDK repeats the address in front of every cause; the last one says what is wrong. */
function lastCause(text: string): string {
  return text.trim().split('): ').at(-1)?.trim() || 'it gave no reason';
}
