import { setTimeout as delay } from 'node:timers/promises';
import {
  type Client,
  WorkflowExecutionAlreadyStartedError,
  type WorkflowExecutionDescription,
} from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { z } from 'zod';
import { type BudgetState, carryState } from '../budget/index.js';
import { WAKE_TEN_MS } from '../budget/limits.js';
import {
  type DurationInput,
  durationSchema,
  parseInput,
  projectBudgetWorkflowId,
  WorkflowType,
} from '../contract/index.js';
import { describeGrpcError } from '../temporal/grpc.js';
import { LedgerLostError, ListOutOfDateError, readLedger } from './budget-ledger.js';
import { budgetStartOptions, type BudgetTarget } from './budget-update.js';
import {
  BudgetNotFoundError,
  BudgetPausedError,
  BudgetRunningError,
  BudgetStateLostError,
  InvalidInputError,
  TemporalUnreachableError,
  WorkerUnavailableError,
} from './errors.js';
import { readHistory, readRunStart } from './history.js';
import { listFollowUps, listQuery } from './list.js';
import { type ExecutionStatus, toExecutionStatus } from './summary.js';
import { callTemporal, fewAtATime, isPassingTrouble, isVagueTrouble } from './temporal-call.js';
import { isPolled, readTrouble } from './trouble.js';
import {
  BUDGET_RESET,
  type BudgetSettings,
  budgetSettingsSchema,
  type ProjectBudgetInput,
  wakeSignal,
} from '../contract/protocol.js';

/** Lease (send timeout of 30 s + 30 s) and drain (120 s) of workers with the default settings. */
const DEFAULT_IN_FLIGHT_MS = 180_000;

/** Options of `BudgetHandle.restore`. */
export interface RestoreOptions {
  /**
   * If the last state is lost: count every slot as taken, so that nothing is sent for one window, and count every
   * earlier follow-up as sent, so that nothing is sent twice.
   *
   * @default false
   */
  assumeFull?: boolean;
  /**
   * With `assumeFull`: how long after its grant a send may reach the service, which is the workers'
   * `FOLLOW_UP_SEND_TIMEOUT` + 30 s + `FOLLOW_UP_DRAIN`.
   *
   * @default '3m', as with the workers' defaults
   */
  inFlight?: DurationInput;
}

/** A budget that runs again. Instants are ISO 8601 in UTC. */
export interface RestoredBudget {
  projectId: string;
  workflowId: string;
  /** The run that was started. */
  runId: string;
  /** What it started from. */
  from: 'lastState' | 'assumeFull';
  settings: BudgetSettings;
  /** The previous run, and how it ended. */
  stopped: { runId: string; status: ExecutionStatus; at: string };
  /** With `assumeFull`: nothing is sent before then. */
  fullUntil?: string;
}

const optionsSchema = z.strictObject({
  assumeFull: z.boolean().optional(),
  inFlight: durationSchema('0s', '2h').optional(),
});

/** See `BudgetHandle.restore`. */
export async function restoreBudget(target: BudgetTarget, options: RestoreOptions): Promise<RestoredBudget> {
  const restored = await startAgain(target, options);
  await wakeBlockedFollowUps(target.client, target.projectId);
  return restored;
}

async function startAgain(target: BudgetTarget, options: RestoreOptions): Promise<RestoredBudget> {
  const parsed = parseInput(optionsSchema, options);
  if (!parsed.ok) throw new InvalidInputError(parsed.issues);
  const { assumeFull = false, inFlight: inFlightMs = DEFAULT_IN_FLIGHT_MS } = parsed.value;
  const { projectId } = target;
  const last = await stopFailing(target, assumeFull);
  const stoppedAt = last.closeTime ?? new Date();
  const input: ProjectBudgetInput = assumeFull
    ? {
        projectId,
        settings: await lastSettings(target, last),
        assumeFull: true,
        inFlightUntilMs: stoppedAt.getTime() + inFlightMs,
      }
    : await readState(target, last.runId).then((state) => ({
        projectId,
        settings: state.settings,
        restored: carryState(state),
      }));
  const runId = await start(target, last, input);
  const { settings, inFlightUntilMs } = input;
  return {
    projectId,
    workflowId: last.workflowId,
    runId,
    from: assumeFull ? 'assumeFull' : 'lastState',
    settings,
    stopped: { runId: last.runId, status: toExecutionStatus(last.status.name), at: stoppedAt.toISOString() },
    ...(assumeFull && {
      fullUntil: new Date(
        Math.max(Date.now(), inFlightUntilMs ?? 0) + settings.windowMs + settings.marginMs,
      ).toISOString(),
    }),
  };
}

/**
 * Restores a budget that ended itself because somebody reset it: its state is in the run that the reset
 * replaced. Returns whether it runs now. Any other end was deliberate, or needs a person.
 *
 * @throws what {@link restoreBudget} throws
 */
export async function restoreAfterReset(target: BudgetTarget): Promise<boolean> {
  const { client, projectId } = target;
  const workflowId = projectBudgetWorkflowId(projectId);
  const { runId, status } = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
  if (status.name === 'RUNNING') return true;
  if (status.name !== 'FAILED') return false;
  const events = await readHistory(client, workflowId, runId, 'close');
  const failure = events.at(-1)?.workflowExecutionFailedEventAttributes?.failure;
  if (failure?.applicationFailureInfo?.type !== BUDGET_RESET) return false;
  try {
    await startAgain(target, {});
    // Waking many takes a while, and nothing has to wait for it.
    void wakeBlockedFollowUps(client, projectId);
  } catch (error) {
    // Another worker was faster.
    if (!(error instanceof BudgetRunningError)) throw error;
  }
  return true;
}

/** Starts the budget, unless another run has begun: a state that was read before that run would miss its sends. */
async function start(
  target: BudgetTarget,
  last: WorkflowExecutionDescription,
  input: ProjectBudgetInput,
): Promise<string> {
  const { client, projectId } = target;
  const now = await describe(target);
  if (now.runId !== last.runId) throw new BudgetRunningError(projectId);
  // On the task queue where the workers are, even if the caller's settings differ.
  const isPolledStill = input.restored !== undefined && (await isPolled(client, last.taskQueue));
  try {
    const handle = await callTemporal(client, () =>
      client.workflow.start(WorkflowType.projectBudget, {
        ...budgetStartOptions(target),
        ...(isPolledStill && { taskQueue: last.taskQueue }),
        args: [input],
        workflowIdReusePolicy: 'ALLOW_DUPLICATE',
        workflowIdConflictPolicy: 'FAIL',
      }),
    );
    return handle.firstExecutionRunId;
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    throw new BudgetRunningError(projectId, { cause: error });
  }
}

/**
 * The budget's last run, closed. A run whose tasks fail is stopped here, after checking that its state can be read: a
 * reset to its last good task would forget what that task had granted.
 */
async function stopFailing(target: BudgetTarget, assumeFull: boolean): Promise<WorkflowExecutionDescription> {
  const { client, projectId } = target;
  const last = await describe(target);
  if (!isRunning(last)) return last;
  const { workflowId, runId } = last;
  const trouble = await readTrouble(client, workflowId);
  if (trouble?.kind === 'paused') throw new BudgetPausedError(projectId, trouble);
  if (trouble?.kind === 'unattended') throw new WorkerUnavailableError(workflowId, `${trouble.what}; ${trouble.fix}`);
  if (trouble?.kind !== 'failing') throw new BudgetRunningError(projectId);
  if (!assumeFull) await readState(target, runId);
  try {
    await callTemporal(client, () =>
      client.workflow.getHandle(workflowId, runId).terminate('its tasks failed: follow-up budget restore'),
    );
  } catch (error) {
    // It has continued, or somebody else was faster.
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
  const stopped = await describe(target);
  if (isRunning(stopped)) throw new BudgetRunningError(projectId);
  return stopped;
}

function isRunning({ status }: WorkflowExecutionDescription): boolean {
  return toExecutionStatus(status.name) === 'running';
}

async function describe({ client, projectId }: BudgetTarget): Promise<WorkflowExecutionDescription> {
  const workflowId = projectBudgetWorkflowId(projectId);
  try {
    return await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    throw new BudgetNotFoundError(projectId, { cause: error });
  }
}

/** The state of a run, from its history. */
async function readState({ client, projectId }: BudgetTarget, runId: string): Promise<BudgetState> {
  try {
    return await readLedger(client, projectId, runId);
  } catch (error) {
    if (error instanceof TemporalUnreachableError || isPassingTrouble(error)) throw error;
    const reason =
      error instanceof LedgerLostError ? error.message : `its history cannot be read: ${describeGrpcError(error)}`;
    throw new BudgetStateLostError(projectId, reason, { cause: error });
  }
}

/** The last settings in force, as far as they can be found out. */
async function lastSettings(
  target: BudgetTarget,
  { workflowId, runId }: WorkflowExecutionDescription,
): Promise<BudgetSettings> {
  try {
    return (await readState(target, runId)).settings;
  } catch (error) {
    if (!(error instanceof BudgetStateLostError)) throw error;
  }
  try {
    const args = await callTemporal(target.client, () => readRunStart(target.client, workflowId, runId));
    for (const place of args.toReversed()) {
      const parsed = z.object({ settings: budgetSettingsSchema }).safeParse(place);
      if (parsed.success) return parsed.data.settings;
    }
  } catch (error) {
    if (error instanceof TemporalUnreachableError) throw error;
    // Its history is gone as well.
  }
  return target.settings;
}

/** As many as a budget's queue holds. The others ask again within an hour. */
const MOST_WOKEN = 1_000;
/** Pauses before each retry. A server that has just come back refuses some calls. */
const PAUSES_MS = [1_000, 4_000, 15_000];

/**
 * Wakes follow-ups that found their project's budget stopped or silent, so that they ask again at once. Calls with a
 * passing error are retried up to three times. If they still fail, only time is lost: a follow-up asks again on its own
 * within an hour. Never rejects.
 *
 * @param told workflow ids that are known to be blocked. Temporal's list of them may be out of date. Each is removed once
 * its follow-up is woken, or cannot be.
 */
export async function wakeBlockedFollowUps(client: Client, projectId: string, told = new Set<string>()): Promise<void> {
  const known = new Set(told);
  const wake = async (workflowId: string) => {
    try {
      await client.workflow.getHandle(workflowId).signal(wakeSignal);
    } catch (error) {
      if (!mayPass(error)) told.delete(workflowId);
      throw error;
    }
    told.delete(workflowId);
    await delay(WAKE_TEN_MS);
  };
  const wakeOthers = async () => {
    const others = new Set<string>();
    await persist([listQuery({ project: projectId, state: 'blocked' })], async (query) => {
      for await (const { workflowId, status } of listFollowUps(client, query)) {
        if (status === 'running' && !known.has(workflowId)) others.add(workflowId);
        if (others.size >= MOST_WOKEN) break;
      }
    });
    await persist([...others], wake);
  };
  await Promise.all([persist([...known], wake), wakeOthers()]);
}

/** Whether the same call may succeed later, without a change of permissions or settings. */
export function mayPass(error: unknown): boolean {
  return error instanceof ListOutOfDateError || isPassingTrouble(error) || isVagueTrouble(error);
}

/** Calls `call` for each item, a few at a time, and retries those that failed with a passing error. */
async function persist(
  items: readonly string[],
  call: (item: string) => Promise<void>,
  pausesMs: readonly number[] = PAUSES_MS,
): Promise<void> {
  const failed: string[] = [];
  await fewAtATime(items, (item) =>
    call(item).catch((error: unknown) => {
      if (mayPass(error)) failed.push(item);
    }),
  );
  const [pauseMs, ...laterPausesMs] = pausesMs;
  if (failed.length === 0 || pauseMs === undefined) return;
  await delay(pauseMs);
  await persist(failed, call, laterPausesMs);
}
