import { z } from 'zod';
import * as contract from '../../../src/contract/index.js';
import { parseEverything } from './parse-everything.js';

/** The results of the schemas in the sandbox, twice, because what they cache must change nothing. */
export async function parseTwice(): Promise<Record<string, unknown>[]> {
  return Promise.resolve([parseEverything(), parseEverything()]);
}

/** Parses with a schema that the workflow makes from shared ones. */
export async function parseWithOwnSchema(input: unknown): Promise<unknown> {
  const own = z.strictObject({
    id: contract.idSchema.optional(),
    wait: contract.durationSchema('1s', '1h').nullable(),
  });
  return Promise.resolve(contract.parseInput(own, input));
}

/** Tries to leave a trace on shared objects, and returns how many had one before. */
export async function leaveTraces(): Promise<number> {
  const targets: object[] = [
    contract,
    contract.idSchema,
    contract.SearchAttribute,
    contract.lanes,
    z,
    z.globalRegistry,
  ];
  const before = targets.filter((target) => 'trace' in target).length;
  for (const target of targets) {
    try {
      Object.assign(target, { trace: 'left by a workflow' });
    } catch {
      // Shared objects are frozen.
    }
  }
  return Promise.resolve(before);
}
