import type { QueryDefinition, SignalDefinition, UpdateDefinition } from '@temporalio/common';

// Equivalent to the functions in `@temporalio/workflow`, whose import would load the whole workflow runtime for every
// user of the contract.

export function defineQuery<Result, Args extends unknown[] = []>(name: string): QueryDefinition<Result, Args> {
  return { type: 'query', name } as QueryDefinition<Result, Args>;
}

export function defineSignal<Args extends unknown[] = []>(name: string): SignalDefinition<Args> {
  return { type: 'signal', name } as SignalDefinition<Args>;
}

export function defineUpdate<Result, Args extends unknown[] = []>(name: string): UpdateDefinition<Result, Args> {
  return { type: 'update', name } as UpdateDefinition<Result, Args>;
}
