import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Connection, type ConnectionOptions } from '@temporalio/client';
import { type Ask, type BudgetClient, createBudgetClient } from '../../src/activities/index.js';
import type { AcquireRequest } from '../../src/contract/protocol.js';
import { callRetries } from '../../src/temporal/grpc.js';

/** A budget client with its own connections, as in each worker. The connection does not retry asks by default. */
export async function connectBudgetClient(options: {
  address: string;
  taskQueue: string;
  limit: number;
  namespace?: string;
  /** The interceptors of the connection that asks. */
  interceptors?: ConnectionOptions['interceptors'];
  /** The interceptors of the connection for everything else. */
  tellInterceptors?: ConnectionOptions['interceptors'];
}): Promise<{ budget: BudgetClient; close: () => Promise<unknown> }> {
  const { address, taskQueue, limit, namespace = 'default' } = options;
  const { interceptors = [], tellInterceptors = callRetries() } = options;
  const acquireConnection = await Connection.connect({ address, interceptors });
  const connection = await Connection.connect({ address, interceptors: tellInterceptors });
  const settings = { limit, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
  const budget = createBudgetClient({ acquireConnection, connection, namespace, taskQueue, settings });
  return {
    budget,
    close: async () => {
      await budget.allTold();
      await Promise.all([acquireConnection.close(), connection.close()]);
    },
  };
}

/**
 * Asks until the budget itself answers, as a follow-up does. Returns the answer and the request that it answers. On a
 * busy machine, an answer may come when the client no longer waits for it. If it is a grant, the client gives it back
 * or the next ask takes it back, and the next send asks.
 */
export async function askUntilProven(
  budget: BudgetClient,
  projectId: string,
  first: AcquireRequest,
): Promise<Pick<Ask, 'answer'> & { request: AcquireRequest }> {
  let { sendNumber } = first;
  let wasLetGo = false;
  for (let askNumber = 1; ; askNumber++) {
    const token = askNumber === 1 ? first.token : randomUUID();
    const request: AcquireRequest = { ...first, askNumber, sendNumber, token, provenNotSent: true };
    const { answer, proven } = await budget.acquire(projectId, request);
    if (wasLetGo && answer.kind === 'done' && answer.outcome === 'notSent') {
      sendNumber += 1;
      wasLetGo = false;
      continue;
    }
    if (proven) return { answer, request };
    wasLetGo = true;
    await delay(100);
  }
}

/** The first ask of a follow-up, with a new token. */
export function makeAcquireRequest(
  request: Pick<AcquireRequest, 'workflowId' | 'jobId'> & Partial<AcquireRequest>,
): AcquireRequest {
  return {
    sendNumber: 1,
    lane: 'interactive',
    token: randomUUID(),
    hold: false,
    attemptScheduledAtMs: Date.now(),
    firstRunStartedAtMs: Date.now(),
    messageTag: 'messages',
    leaseMs: 60_000,
    drainMs: 120_000,
    ...request,
  };
}
