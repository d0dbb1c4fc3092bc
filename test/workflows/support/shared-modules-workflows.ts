import { z } from 'zod';
import * as contract from '../../../src/contract/index.js';
import { parseEverything } from './parse-everything.js';

/** What the schemas say in the sandbox, twice: what they remember of the first time changes nothing. */
export async function parseTwice(): Promise<Record<string, unknown>[]> {
  return Promise.resolve([parseEverything(), parseEverything()]);
}

/** A schema made in a workflow, of shared ones. */
export async function parseWithOwnSchema(input: unknown): Promise<unknown> {
  const own = z.strictObject({
    id: contract.idSchema.optional(),
    wait: contract.durationSchema('1s', '1h').nullable(),
  });
  return Promise.resolve(contract.parseInput(own, input));
}

/** Leaves something behind wherever it can, and answers with how often something was there before. */
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
      // What is shared is frozen.
    }
  }
  return Promise.resolve(before);
}
