import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Client } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { createBudgets } from '../../src/activities/budgets.js';
import { createItemFinder } from '../../src/activities/find-items.js';
import { createActivities } from '../../src/activities/index.js';
import type { AgentJobsClient } from '../../src/agent-jobs/index.js';
import { budgetTaskQueue, type FollowUpInput, followUpWorkflowId } from '../../src/contract/index.js';
import type { FindItemsInput } from '../../src/protocol/index.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { ServerClock } from '../../src/temporal/server-clock.js';
import type { WebhookTargets } from '../../src/webhooks/targets.js';
import { createWebhookActivities } from '../../src/webhooks/webhook-activities.js';
import { createLogger } from '../../src/worker/logging.js';
import { installRuntime } from '../../src/worker/runtime.js';
import { activationLimit } from '../../src/worker/worker-options.js';
import type { followUp } from '../../src/workflows/index.js';
import { connectPatiently } from './stack.js';

/** The workflows that run in production, made by the build, and how long one activation may take. */
export const builtWorkflows = {
  workflowBundle: { codePath: join(import.meta.dirname, '..', '..', 'dist', 'workflow-bundle.js') },
  ...activationLimit,
};

/**
 * Installs Temporal's runtime so that it logs only errors, because some workflows fail on purpose. The runtime belongs
 * to the process, which test files share, and ends with its last connection. Call it before the first connection.
 */
export async function installQuietRuntime(): Promise<void> {
  await installRuntime(createLogger({ level: 'error', format: 'json' }));
}

/** Both workers on a running Temporal server, with the built bundle and their own task queue. */
export interface WorkflowRig {
  client: Client;
  taskQueue: string;
  /**
   * What `findItems` answers first about items of a batch id, and `findPart` about the workflow id of a part, as if
   * somebody had completed them by hand.
   */
  wrongAnswers: Map<string, Promise<unknown>[]>;
  /** Starts a follow-up as any Temporal client would. */
  start(input: FollowUpInput): ReturnType<Client['workflow']['start']>;
  stop(): Promise<void>;
}

/**
 * Starts both workers in this process.
 *
 * @param options.leaseMs how long after its grant a send has ended
 */
export async function startWorkflowRig(options: {
  address: string;
  agentJobs: AgentJobsClient;
  leaseMs: number;
  webhooks?: WebhookTargets;
}): Promise<WorkflowRig> {
  const { address, agentJobs, leaseMs, webhooks = new Map() } = options;
  await installQuietRuntime();
  const taskQueue = `follow-ups-${randomUUID()}`;
  const connection = await connectPatiently(address);
  const native = await NativeConnection.connect({ address });
  const client = new Client({ connection });
  await ensureSearchAttributes(connection, client.options.namespace);
  const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 200 };
  const coreActivities = createActivities({
    agentJobs,
    budgets: createBudgets(client, { taskQueue, settings }),
    sendTimeoutMs: leaseMs / 2,
    leaseMs,
    drainMs: 0,
    maxLimit: 1_000,
    maxWatches: 1_000,
    ending: new AbortController().signal,
    linksArePrivate: false,
    serverClock: new ServerClock(),
  });
  const finder = createItemFinder(client);
  const wrongAnswers = new Map<string, Promise<unknown>[]>();
  const activities = {
    ...coreActivities,
    findItems: (input: FindItemsInput) => wrongAnswers.get(input.batchId)?.shift() ?? finder.findItems(input),
    ...createWebhookActivities({ targets: async () => webhooks, linksArePrivate: false, maxAttempts: 10 }),
    findPart: (id: string) => wrongAnswers.get(id)?.shift() ?? finder.findPart(id),
  };
  const shared = { ...builtWorkflows, connection: native, activities, maxCachedWorkflows: 1_000 };
  const workers = await Promise.all([
    Worker.create({ ...shared, taskQueue }),
    Worker.create({ ...shared, taskQueue: budgetTaskQueue(taskQueue) }),
  ]);
  const running = Promise.all(workers.map((worker) => worker.run()));
  return {
    client,
    taskQueue,
    wrongAnswers,
    start: (input) =>
      client.workflow.start<typeof followUp>('followUp', {
        taskQueue,
        workflowId: followUpWorkflowId({ projectId: input.projectId, jobId: input.jobId, key: randomUUID() }),
        args: [input],
      }),
    async stop() {
      for (const worker of workers) worker.shutdown();
      await running;
      await Promise.all([connection.close(), native.close()]);
    },
  };
}
