import { WorkflowExecutionAlreadyStartedError, type WorkflowExecutionDescription } from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { z } from 'zod';
import { type BudgetState, carryState } from '../budget/index.js';
import {
  type DurationInput,
  durationSchema,
  parseInput,
  projectBudgetWorkflowId,
  WorkflowType,
} from '../contract/index.js';
import {
  BUDGET_RESET,
  type BudgetSettings,
  budgetSettingsSchema,
  type ProjectBudgetInput,
} from '../contract/protocol.js';
import { BudgetNotFoundError, BudgetPausedError, BudgetRunningError, BudgetStateLostError } from './budget-errors.js';
import { LedgerLostError, readLedger } from './budget-ledger.js';
import { budgetStartOptions, type BudgetTarget } from './budget-start.js';
import { wakeBlockedFollowUps } from './budget-wake.js';
import { InvalidInputError, TemporalUnreachableError, WorkerUnavailableError } from './errors.js';
import { readHistory } from './history.js';
import { readRunStart } from './started-input.js';
import { type ExecutionStatus, toExecutionStatus } from './summary.js';
import { callTemporal, grpcDetails, isPassingTrouble } from './temporal-call.js';
import { isPolled, readTrouble } from './trouble.js';

/** Lease (send timeout of 30 s + 30 s) and drain (120 s) of workers with the default settings. */
const DEFAULT_IN_FLIGHT_MS = 180_000;

/** Options of `BudgetHandle.restore`. */
export interface RestoreOptions {
  /**
   * Where the last state is lost: take every slot for spent, so that nothing is sent for one window, and take every
   * follow-up that began before for sent, so that nothing is sent twice.
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
  /** What it began with. */
  from: 'lastState' | 'assumeFull';
  settings: BudgetSettings;
  /** The run before, and how it ended. */
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
 * Restores a budget that ended itself because somebody reset it: what it knew before stands in the run that the reset
 * replaced. Answers whether it runs now; any other end of a budget was somebody's will, or wants somebody's eye.
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
    // Many take a while, and whoever asks the budget now need not wait for it.
    void wakeBlockedFollowUps(client, projectId);
  } catch (error) {
    // Another worker was quicker.
    if (!(error instanceof BudgetRunningError)) throw error;
  }
  return true;
}

/** Starts the budget, unless its last run is another by now: a state that was read before that run would miss its sends. */
async function start(
  target: BudgetTarget,
  last: WorkflowExecutionDescription,
  input: ProjectBudgetInput,
): Promise<string> {
  const { client, projectId } = target;
  const now = await describe(target);
  if (now.runId !== last.runId) throw new BudgetRunningError(last.workflowId, projectId);
  // Where the workers are, whatever the caller's own settings are.
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
    throw new BudgetRunningError(last.workflowId, projectId, { cause: error });
  }
}

/**
 * The budget's last run, closed. One whose tasks fail is stopped here, once it is known that its state can be read: a
 * reset to its last good task would forget what that task had granted.
 */
async function stopFailing(target: BudgetTarget, assumeFull: boolean): Promise<WorkflowExecutionDescription> {
  const { client, projectId } = target;
  const last = await describe(target);
  if (!isRunning(last)) return last;
  const { workflowId, runId } = last;
  const trouble = await readTrouble(client, workflowId);
  if (trouble?.kind === 'paused') throw new BudgetPausedError(workflowId, projectId, trouble);
  if (trouble?.kind === 'unattended') throw new WorkerUnavailableError(workflowId, `${trouble.what}; ${trouble.mend}`);
  if (trouble?.kind !== 'failing') throw new BudgetRunningError(workflowId, projectId);
  if (!assumeFull) await readState(target, runId);
  try {
    await callTemporal(client, () =>
      client.workflow.getHandle(workflowId, runId).terminate('its tasks failed: follow-up budget restore'),
    );
  } catch (error) {
    // It has gone on, or somebody else was quicker.
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
  const stopped = await describe(target);
  if (isRunning(stopped)) throw new BudgetRunningError(workflowId, projectId);
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
    throw new BudgetNotFoundError(workflowId, projectId, { cause: error });
  }
}

/** What a run knew, from its history. */
async function readState({ client, projectId }: BudgetTarget, runId: string): Promise<BudgetState> {
  try {
    return await readLedger(client, projectId, runId);
  } catch (error) {
    if (error instanceof TemporalUnreachableError || isPassingTrouble(error)) throw error;
    const reason =
      error instanceof LedgerLostError
        ? error.message
        : `its history cannot be read: ${grpcDetails(error) ?? (error instanceof Error ? error.message : String(error))}`;
    throw new BudgetStateLostError(projectBudgetWorkflowId(projectId), projectId, reason, { cause: error });
  }
}

/** The limit that was in force last, as far as that can be told. */
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
    // Its history is gone, too.
  }
  return target.settings;
}
