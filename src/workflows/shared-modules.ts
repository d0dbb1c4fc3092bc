import { z } from 'zod';
import * as budget from '../budget/budget.js';
import * as followUp from '../follow-up/flow.js';
import * as batchProtocol from '../contract/batch-protocol.js';
import * as durations from '../contract/durations.js';
import * as followUpInput from '../contract/follow-up-input.js';
import * as contract from '../contract/index.js';
import * as protocol from '../contract/protocol.js';
import * as validation from '../contract/validation.js';

/**
 * Evaluated once per workflow thread, before any workflow, with everything that it imports. All workflows of the thread
 * share the result. Otherwise each workflow would evaluate zod and the schemas again, which takes 1 MiB and 18 ms of CPU.
 *
 * Whatever is shared must be the same for every workflow: no state, no clock and no randomness at the top of a module.
 * The SDK freezes everything that the modules export.
 */
for (const shared of [batchProtocol, budget, contract, durations, followUp, followUpInput, protocol, validation]) {
  for (const value of Object.values(shared) as unknown[]) {
    if (value instanceof z.ZodType) settle(value);
  }
}

/**
 * Prepares a schema for being frozen. zod binds a schema's methods and derives parts of it at their first use, and stores
 * them in the schema. On a deeply frozen schema that would throw in the middle of a workflow. So this binds the methods
 * now and freezes the schema itself, because the SDK does not look inside an object that is already frozen. Inside, zod
 * can still cache what it derives from the schema alone.
 */
function settle(schema: z.ZodType): void {
  for (let type: object | null = schema; type !== null && type !== Object.prototype; type = prototypeOf(type)) {
    for (const name of Object.getOwnPropertyNames(type)) void Reflect.get(schema, name);
  }
  Object.freeze(schema);
}

function prototypeOf(object: object): object | null {
  return Object.getPrototypeOf(object) as object | null;
}
