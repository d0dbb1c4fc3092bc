import { describe } from 'vitest';
import { findOnPath, type Environment } from '../../src/embedded/environment.js';
import { findPostgresDirectory } from './postgres.js';

/** A program that some suites need, and that a user's machine may lack. */
export type Requirement = 'java' | 'maven' | 'go' | 'postgres';

const requirements: Record<Requirement, { isHere: (env: Environment) => Promise<boolean>; mend: string }> = {
  java: {
    isHere: async (env) => Boolean(env['JAVA_HOME']) || (await findOnPath('java', env)) !== undefined,
    mend: 'Java is missing: install a JDK or JRE, 11 or newer',
  },
  maven: {
    isHere: async (env) => (await findOnPath('mvn', env)) !== undefined,
    mend: 'Maven is missing: install it so that mvn is on PATH',
  },
  go: {
    isHere: async (env) => (await findOnPath('go', env)) !== undefined,
    mend: 'Go is missing: install it so that go is on PATH',
  },
  postgres: {
    isHere: async (env) => (await findPostgresDirectory(env)) !== undefined,
    mend: 'PostgreSQL is missing: install it (Debian, Ubuntu: apt-get install postgresql)',
  },
};

/** What is missing on this machine, each with its mend; `undefined` when nothing is. */
export async function findMissing(
  needed: readonly Requirement[],
  env: Environment = process.env,
): Promise<string | undefined> {
  const missing: string[] = [];
  for (const name of needed) {
    const { isHere, mend } = requirements[name];
    if (!(await isHere(env))) missing.push(mend);
  }
  return missing.length > 0 ? missing.join('; ') : undefined;
}

/**
 * A `describe` for suites that need programs of other makers. Where one is missing the suite is skipped, with the
 * missing thing and the mend in its name. With `CI=true` it runs, and fails by itself.
 *
 * Use: `describeWith(await findMissing(['java']))('with time skipped', () => …)`.
 */
export function describeWith(missing: string | undefined): (name: string, suite: () => void) => void {
  if (missing === undefined) return (name, suite) => void describe(name, suite);
  return (name, suite) => void describe.skipIf(!isCi())(`${name} [${missing}]`, suite);
}

function isCi(): boolean {
  return process.env['CI'] === 'true';
}
