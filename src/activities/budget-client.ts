import { setTimeout as delay } from 'node:timers/promises';
import {
  WithStartWorkflowOperation,
  WorkflowClient,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  type Connection,
} from '@temporalio/client';
import {
  acquireUpdate,
  budgetTaskQueue,
  projectBudgetWorkflowId,
  settleSignal,
  WorkflowType,
  type AcquireAnswer,
  type AcquireRequest,
  type BudgetSettings,
  type ProjectBudgetInput,
  type SettleMessage,
} from '../contract/index.js';
import { askAgainAfterMs } from './ask-again.js';
import { createCoalescer } from './coalescer.js';
import { GrpcStatus, grpcStatusOf } from '../temporal/grpc-status.js';

/** Deadline of one call. */
const CALL_DEADLINE_MS = 10_000;

/**
 * How long one ask is repeated, with the same token, while it is uncertain whether the gate has heard it. Less than the
 * 30 s that a lease is longer than a send may take, for the send's last check counts from the first call.
 */
const ASK_FOR_MS = 25_000;

/**
 * Asks of one project share calls: the server lets 10 updates be in flight per workflow and 2,000 in a run, and each
 * costs a workflow task. Two calls under way per worker leave room for five workers.
 */
const MAX_CALLS_IN_FLIGHT = 2;
const MAX_ASKS_PER_CALL = 50;

/** Wait while a gate was terminated and nobody has restored it. */
const GATE_STOPPED_WAIT_MS = 60_000;

/** Answers of the server after which the gate has certainly not heard the ask, and which a repetition would not change. */
const REFUSALS: readonly (number | undefined)[] = [
  GrpcStatus.invalidArgument,
  GrpcStatus.permissionDenied,
  GrpcStatus.unauthenticated,
  GrpcStatus.unimplemented,
];

/** What the gate answered; `proven` says whether the gate itself did. */
export interface Ask {
  answer: AcquireAnswer;
  /** `false` where the answer was made up on this side, because the gate could not be asked. */
  proven: boolean;
}

/** How an activity talks to a project's budget. */
export interface BudgetClient {
  /**
   * Asks for a slot and the job's turn, and starts the gate if it does not run yet. A call that fails is repeated with
   * the same token for up to 25 s, since the gate may have granted it: a server under load was seen to answer
   * FAILED_PRECONDITION and RESOURCE_EXHAUSTED to asks that the gate had granted, and the token of a later attempt could
   * only wait for the lease to end.
   *
   * @throws what the server answers when it refuses, or in the end
   */
  acquire(projectId: string, request: AcquireRequest): Promise<Ask>;
  /**
   * Tells how a send ended, within 10 s. Losing it is made good by the follow-up's `finish`.
   *
   * @throws what the server answers, or that it does not
   */
  settle(projectId: string, message: SettleMessage): Promise<void>;
}

/** What {@link createBudgetClient} needs. */
export interface BudgetClientOptions {
  /**
   * Connection for asks alone, made with `interceptors: []`: the default interceptor would retry `ResourceExhausted`
   * until the deadline.
   */
  acquireConnection: Connection;
  /** Connection for everything else. */
  connection: Connection;
  namespace: string;
  /** Base name of the task queues. */
  taskQueue: string;
  /** Settings of a gate that does not exist yet. */
  settings: BudgetSettings;
}

/** The budget of every project, on one Temporal namespace. */
export function createBudgetClient(options: BudgetClientOptions): BudgetClient {
  const { acquireConnection, connection, namespace, settings } = options;
  const asking = new WorkflowClient({ connection: acquireConnection, namespace });
  const telling = new WorkflowClient({ connection, namespace });
  const taskQueue = budgetTaskQueue(options.taskQueue);

  async function askAll(projectId: string, requests: AcquireRequest[]): Promise<AcquireAnswer[]> {
    const input: ProjectBudgetInput = { projectId, settings };
    const ask = {
      args: [requests] as [AcquireRequest[]],
      startWorkflowOperation: new WithStartWorkflowOperation(WorkflowType.projectBudget, {
        workflowId: projectBudgetWorkflowId(projectId),
        taskQueue,
        args: [input],
        // A gate whose last run is closed has lost nothing yet; an empty one in its place would have.
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        workflowIdConflictPolicy: 'USE_EXISTING',
        staticSummary: `Message budget of project ${projectId}`,
      }),
    };
    const deadlineMs = Date.now() + CALL_DEADLINE_MS;
    return acquireConnection.withDeadline(deadlineMs, () => asking.executeUpdateWithStart(acquireUpdate, ask));
  }

  const ask = createCoalescer({ call: askAll, maxCallsInFlight: MAX_CALLS_IN_FLIGHT, maxPerCall: MAX_ASKS_PER_CALL });

  return {
    async acquire(projectId, request) {
      const giveUpAtMs = performance.now() + ASK_FOR_MS;
      let timesTurnedAway = 0;
      for (;;) {
        try {
          return { answer: await ask(projectId, request), proven: true };
        } catch (error) {
          if (error instanceof WorkflowExecutionAlreadyStartedError) {
            return { answer: waitAnswer('gate-stopped', GATE_STOPPED_WAIT_MS), proven: false };
          }
          const status = grpcStatusOf(error);
          if (REFUSALS.includes(status)) throw error;
          const isTurnedAway = status === GrpcStatus.resourceExhausted;
          timesTurnedAway = isTurnedAway ? timesTurnedAway + 1 : 0;
          const retryAfterMs = askAgainAfterMs(timesTurnedAway, Math.random());
          if (performance.now() + retryAfterMs >= giveUpAtMs) {
            if (isTurnedAway) return { answer: waitAnswer('slot', retryAfterMs), proven: false };
            throw error;
          }
          // The gate may have granted it and the answer was lost: only this token can take the grant up.
          await delay(retryAfterMs);
        }
      }
    },

    async settle(projectId, message) {
      try {
        const gate = telling.getHandle(projectBudgetWorkflowId(projectId));
        await connection.withDeadline(Date.now() + CALL_DEADLINE_MS, () => gate.signal(settleSignal, message));
      } catch (error) {
        // A gate that was terminated gets its state back by `budget restore`, without this settle: the slot is then
        // held longer, and the follow-up's own word makes the outcome good.
        if (!(error instanceof WorkflowNotFoundError)) throw error;
      }
    },
  };
}

function waitAnswer(reason: 'gate-stopped' | 'slot', waitMs: number): AcquireAnswer {
  return { kind: 'wait', reason, waitMs: Math.round(waitMs), position: 0, etaMs: null };
}
