import { chmod, mkdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import {
  cacheDirectory,
  childEnvironment,
  findOnPath,
  isExecutable,
  type Environment,
  type OnProgress,
} from './environment.js';
import { fetchOnce } from './fetch-once.js';
import { NotHereError, resolveBinary, type ResolvedBinary } from './resolve-steps.js';
import { lastWords, runCommand } from './run-command.js';
import { downloadBySdk, findSdkDownload } from './sdk-download.js';
import { MIN_TEMPORAL_SERVER_VERSION, TEMPORAL_CLI_MODULE, TEMPORAL_CLI_VERSION } from './versions.js';

/** Settings of the resolvers. */
export interface ResolveOptions {
  env: Environment;
  onProgress?: OnProgress | undefined;
}

const FILE_NAME = process.platform === 'win32' ? 'temporal.exe' : 'temporal';
const BUILD_TIMEOUT_MS = 1_800_000;
const VERSION_TIMEOUT_MS = 15_000;

/**
 * Finds the Temporal CLI, whose `server start-dev` is the development server: `TEMPORAL_CLI_PATH`, `temporal` on PATH,
 * this project's cache, the SDK's own download, `go install` of the official module (about 3 minutes on 2 cores, once).
 *
 * @throws BinaryUnavailableError with every step's reason
 */
export async function resolveTemporalCli({ env, onProgress }: ResolveOptions): Promise<ResolvedBinary> {
  const cache = cacheDirectory(env);
  const builtPath = join(cache, `temporal-cli-${TEMPORAL_CLI_VERSION}`, FILE_NAME);
  const findBuilt = async () => ((await isExecutable(builtPath)) ? builtPath : undefined);
  return await resolveBinary(
    'Temporal CLI',
    [
      {
        name: 'TEMPORAL_CLI_PATH',
        source: 'setting',
        run: async () => {
          const path = env['TEMPORAL_CLI_PATH'];
          if (!path) throw new NotHereError('not set');
          await checkVersion(path, env);
          return path;
        },
      },
      {
        name: 'temporal on PATH',
        source: 'path',
        run: async () => {
          const path = await findOnPath('temporal', env);
          if (path === undefined) throw new NotHereError('not found');
          await checkVersion(path, env);
          return path;
        },
      },
      {
        name: `cache ${cache}`,
        source: 'cache',
        run: async () => {
          const path = (await findBuilt()) ?? (await findSdkDownload('dev-server', cache));
          if (path === undefined) throw new NotHereError('holds none yet');
          return path;
        },
      },
      {
        name: "the SDK's own download",
        source: 'sdk-download',
        run: () => downloadBySdk('dev-server', { env, cacheDirectory: cache, onProgress }),
      },
      {
        name: `go install ${TEMPORAL_CLI_MODULE}@${TEMPORAL_CLI_VERSION}`,
        source: 'go-install',
        run: async () => {
          const go = await findOnPath('go', env);
          if (go === undefined) throw new Error('Go is not on PATH');
          return await fetchOnce({
            cacheDirectory: cache,
            name: `temporal-cli-${TEMPORAL_CLI_VERSION}`,
            lookUp: findBuilt,
            onProgress,
            fetch: (temporaryDirectory) => buildWithGo(go, temporaryDirectory, builtPath, env, onProgress),
          });
        },
      },
    ],
    'Install the Temporal CLI (https://docs.temporal.io/cli/setup-cli) so that `temporal` is on PATH, or set TEMPORAL_CLI_PATH to its executable.',
    onProgress,
  );
}

async function buildWithGo(
  go: string,
  temporaryDirectory: string,
  path: string,
  env: Environment,
  onProgress: OnProgress | undefined,
): Promise<string> {
  onProgress?.(`Temporal CLI: building ${TEMPORAL_CLI_VERSION} with Go, once; this takes some minutes`);
  const result = await runCommand(go, ['install', `${TEMPORAL_CLI_MODULE}@${TEMPORAL_CLI_VERSION}`], {
    env: { ...childEnvironment(env), GOBIN: temporaryDirectory },
    cwd: temporaryDirectory,
    timeoutMs: BUILD_TIMEOUT_MS,
    onTick: (elapsedMs) => onProgress?.(`Temporal CLI: building, ${Math.round(elapsedMs / 1_000)} s so far`),
  });
  if (result.exitCode !== 0) throw new Error(lastWords(result));
  const built = join(temporaryDirectory, FILE_NAME);
  await chmod(built, 0o755);
  await mkdir(join(path, '..'), { recursive: true });
  await rename(built, path);
  return path;
}

/** Refuses what is no Temporal CLI, and a server too old for this project. A development build says no server version. */
async function checkVersion(path: string, env: Environment): Promise<void> {
  if (!(await isExecutable(path))) throw new Error(`${path} is not an executable file`);
  const result = await runCommand(path, ['--version'], { env: childEnvironment(env), timeoutMs: VERSION_TIMEOUT_MS });
  if (result.exitCode !== 0 || !result.stdout.startsWith('temporal version')) {
    throw new Error(`${path} is not the Temporal CLI (${lastWords(result)})`);
  }
  const server = /Server (\d+)\.(\d+)/.exec(result.stdout);
  const [minMajor, minMinor] = MIN_TEMPORAL_SERVER_VERSION;
  const [major, minor] = [Number(server?.[1] ?? minMajor), Number(server?.[2] ?? minMinor)];
  if (major < minMajor || (major === minMajor && minor < minMinor)) {
    throw new Error(`${path} holds server ${major}.${minor}, and at least ${minMajor}.${minMinor} is needed`);
  }
}
