import { z } from 'zod';
import * as budget from '../budget/budget.js';
import * as common from '../common/index.js';
import * as contract from '../contract/index.js';
import * as followUp from '../follow-up/flow.js';
import * as protocol from '../protocol/index.js';

/**
 * Evaluates these modules and their imports once per workflow thread, before any workflow runs. Otherwise each workflow
 * would evaluate zod and the schemas again, which takes 1 MiB and 18 ms of CPU.
 *
 * The shared modules must be the same for every workflow: no state, clock or randomness at the top level. The SDK
 * freezes everything that they export.
 */
const modules = [budget, common, contract, followUp, protocol];
for (const shared of modules) {
  for (const value of Object.values(shared) as unknown[]) {
    if (value instanceof z.ZodType) freezeSchemas(value);
  }
}

/**
 * Prepares a schema for the SDK's deep freeze. zod binds a schema's methods and derives some of its parts on first use,
 * and stores them in the schema, which would throw on a frozen one in the middle of a workflow. This function binds the
 * methods and freezes only the schema itself: the SDK skips objects that are already frozen, so zod can still store
 * what it derives inside.
 */
function freezeSchemas(schema: z.ZodType): void {
  for (let type: object | null = schema; type !== null && type !== Object.prototype; type = prototypeOf(type)) {
    for (const name of Object.getOwnPropertyNames(type)) void Reflect.get(schema, name);
  }
  Object.freeze(schema);
}

function prototypeOf(object: object): object | null {
  return Object.getPrototypeOf(object) as object | null;
}
