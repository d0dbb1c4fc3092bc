import {
  isGrpcServiceError,
  ServiceError,
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

/** Deadline of one ask. */
const ACQUIRE_DEADLINE_MS = 10_000;

/** Between two tries of one ask while the server cannot be reached. */
const RETRY_AFTER_MS = 250;

/** Wait while a gate was terminated and nobody has restored it. */
const GATE_STOPPED_WAIT_MS = 60_000;

/** The server lets 10 updates be in flight per workflow; asks beyond that come again after a random wait in this range. */
const EXHAUSTED_WAIT_MS = { min: 250, max: 2_000 };

/** gRPC status codes, of which only these two matter here. */
const GRPC_RESOURCE_EXHAUSTED = 8;
const GRPC_UNAVAILABLE = 14;

/** What the gate answered; `proven` says whether the gate itself did. */
export interface Ask {
  answer: AcquireAnswer;
  /** `false` where the answer was made up on this side, because the gate could not be asked. */
  proven: boolean;
}

/** How an activity talks to a project's budget. */
export interface BudgetClient {
  /**
   * Asks for a slot and the job's turn, and starts the gate if it does not run yet. Within its deadline of 10 s the ask
   * is repeated, with the same token, only while the server is unavailable.
   *
   * @throws anything else the server answers, and the deadline: the next attempt asks anew with its own token
   */
  acquire(projectId: string, request: AcquireRequest): Promise<Ask>;
  /** Tells how a send ended. Losing it is made good by the follow-up's `finish`. */
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

  async function ask(projectId: string, request: AcquireRequest): Promise<AcquireAnswer> {
    const input: ProjectBudgetInput = { projectId, settings };
    return asking.executeUpdateWithStart(acquireUpdate, {
      args: [request],
      updateId: request.token,
      startWorkflowOperation: new WithStartWorkflowOperation(WorkflowType.projectBudget, {
        workflowId: projectBudgetWorkflowId(projectId),
        taskQueue,
        args: [input],
        // A gate whose last run is closed has lost nothing yet; an empty one in its place would have.
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        workflowIdConflictPolicy: 'USE_EXISTING',
        staticSummary: `Message budget of project ${projectId}`,
      }),
    });
  }

  return {
    async acquire(projectId, request) {
      const deadlineMs = Date.now() + ACQUIRE_DEADLINE_MS;
      return acquireConnection.withDeadline(deadlineMs, async () => {
        for (;;) {
          try {
            return { answer: await ask(projectId, request), proven: true };
          } catch (error) {
            if (error instanceof WorkflowExecutionAlreadyStartedError) {
              return { answer: waitAnswer('gate-stopped', GATE_STOPPED_WAIT_MS), proven: false };
            }
            const code = grpcCodeOf(error);
            if (code === GRPC_RESOURCE_EXHAUSTED) {
              const { min, max } = EXHAUSTED_WAIT_MS;
              return { answer: waitAnswer('slot', min + Math.random() * (max - min)), proven: false };
            }
            if (code !== GRPC_UNAVAILABLE || Date.now() + RETRY_AFTER_MS >= deadlineMs) throw error;
            await new Promise((resolve) => setTimeout(resolve, RETRY_AFTER_MS));
          }
        }
      });
    },

    async settle(projectId, message) {
      try {
        await telling.getHandle(projectBudgetWorkflowId(projectId)).signal(settleSignal, message);
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

function grpcCodeOf(error: unknown): number | undefined {
  const cause = error instanceof ServiceError ? error.cause : error;
  return isGrpcServiceError(cause) ? cause.code : undefined;
}
