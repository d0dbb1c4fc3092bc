import { CancellationScope, workflowInfo } from '@temporalio/workflow';

const memory = new Int32Array(new SharedArrayBuffer(4));

/** Makes the first activation of each follow-up take 6 s, as on a machine that has no processor for it. */
export const interceptors = () => ({
  inbound: [
    {
      execute: (input, next) =>
        CancellationScope.nonCancellable(async () => {
          await undefined;
          if (workflowInfo().workflowType === 'followUp') Atomics.wait(memory, 0, 0, 6_000);
          return next(input);
        }),
    },
  ],
});
