import type { QueryDefinition, SignalDefinition, UpdateDefinition } from '@temporalio/common';

// As the functions of the same names in `@temporalio/workflow`. That package holds all that workflows run on, and every
// caller of the contract would load it for these three.

/** Defines a query of a workflow by its name, its answer and its arguments. */
export function defineQuery<Answer, Args extends unknown[] = []>(name: string): QueryDefinition<Answer, Args> {
  return { type: 'query', name } as QueryDefinition<Answer, Args>;
}

/** Defines a signal of a workflow by its name and its arguments. */
export function defineSignal<Args extends unknown[] = []>(name: string): SignalDefinition<Args> {
  return { type: 'signal', name } as SignalDefinition<Args>;
}

/** Defines an update of a workflow by its name, its answer and its arguments. */
export function defineUpdate<Answer, Args extends unknown[] = []>(name: string): UpdateDefinition<Answer, Args> {
  return { type: 'update', name } as UpdateDefinition<Answer, Args>;
}
