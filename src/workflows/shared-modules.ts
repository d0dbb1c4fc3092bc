import { z } from 'zod';
import * as budget from '../budget/index.js';
import * as contract from '../contract/index.js';

/**
 * Evaluated once for each workflow thread, before any workflow, with everything it imports; all workflows of the thread
 * share that. Without it each workflow would evaluate zod and the schemas anew: 1 MiB and 18 ms of CPU for each.
 *
 * What is shared must be the same for every workflow: no state, no clock, no chance at the top of a module. The SDK
 * freezes whatever the modules export.
 */
for (const value of [...Object.values(contract), ...Object.values(budget)] as unknown[]) {
  if (value instanceof z.ZodType) settle(value);
}

/**
 * Makes a schema fit to be frozen. zod binds a schema's methods, and derives parts of it, when they are first used, and
 * keeps them: on a schema that was frozen to its depth that would throw in the middle of a workflow. So the methods are
 * bound now, and the schema itself is frozen here, for the SDK does not look into what is frozen already. What stays
 * changeable inside is zod's own memory of what follows from the schema alone.
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
