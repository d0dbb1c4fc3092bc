import { log, workflowInfo } from '@temporalio/workflow';

/** Runs inside of workflows. */
export const interceptors = () => ({
  inbound: [
    {
      execute(input, next) {
        log.info(`the interceptor saw ${workflowInfo().workflowType}`);
        return next(input);
      },
    },
  ],
});
