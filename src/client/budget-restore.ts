import {
  QueryNotRegisteredError,
  type WorkflowExecutionDescription,
  WorkflowExecutionAlreadyStartedError,
} from '@temporalio/client';
import { WorkflowNotFoundError } from '@temporalio/common';
import { z } from 'zod';
import {
  type BudgetSettings,
  budgetSettingsSchema,
  carriedStateQuery,
  describeIssues,
  type DurationInput,
  durationSchema,
  parseInput,
  type ProjectBudgetInput,
  projectBudgetInputSchema,
  projectBudgetWorkflowId,
  WorkflowType,
} from '../contract/index.js';
import { BudgetNotFoundError, BudgetRunningError, BudgetStateLostError } from './budget-errors.js';
import { budgetStartOptions, type BudgetTarget } from './budget-start.js';
import { wakeBlockedFollowUps } from './budget-wake.js';
import { InvalidInputError, TemporalUnreachableError, WorkerUnavailableError } from './errors.js';
import { readRunStart } from './started-input.js';
import { type ExecutionStatus, toExecutionStatus } from './summary.js';
import { callTemporal, grpcDetails, isPassingTrouble } from './temporal-call.js';

/** A worker replays the whole last run to answer: some thousand events. */
const STATE_QUERY_TIMEOUT_MS = 30_000;

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

/** Looked into no further than needed: the workflow itself wrote it, and reads it. */
const carriedStateSchema = z.looseObject({
  version: z.literal(2),
  projectId: z.string(),
  settings: budgetSettingsSchema,
});

/** See `BudgetHandle.restore`. */
export async function restoreBudget(target: BudgetTarget, options: RestoreOptions): Promise<RestoredBudget> {
  const parsed = parseInput(optionsSchema, options);
  if (!parsed.ok) throw new InvalidInputError(parsed.issues);
  const { assumeFull = false, inFlight: inFlightMs = DEFAULT_IN_FLIGHT_MS } = parsed.value;
  const { projectId } = target;
  const last = await describeStopped(target);
  const stoppedAt = last.closeTime ?? new Date();
  const input = assumeFull
    ? {
        projectId,
        settings: await lastSettings(target, last),
        assumeFull: true as const,
        inFlightUntilMs: stoppedAt.getTime() + inFlightMs,
      }
    : await inputFromState(target, last);
  const runId = await start(target, last, input);
  await wakeBlockedFollowUps(target.client, projectId);
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
 * Starts the budget, unless its last run is another by now: a state that was read before that run would miss its sends.
 */
async function start(
  target: BudgetTarget,
  last: WorkflowExecutionDescription,
  input: ProjectBudgetInput,
): Promise<string> {
  const { client, projectId } = target;
  const now = await describeStopped(target);
  if (now.runId !== last.runId) throw new BudgetRunningError(last.workflowId, projectId);
  try {
    const handle = await callTemporal(client, () =>
      client.workflow.start(WorkflowType.projectBudget, {
        ...budgetStartOptions(target),
        // The worker that read the state is there, whatever the caller's own settings are.
        ...(input.restored !== undefined && { taskQueue: last.taskQueue }),
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

/** The budget's last run, which is closed. */
async function describeStopped({ client, projectId }: BudgetTarget): Promise<WorkflowExecutionDescription> {
  const workflowId = projectBudgetWorkflowId(projectId);
  let description;
  try {
    description = await callTemporal(client, () => client.workflow.getHandle(workflowId).describe());
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    throw new BudgetNotFoundError(workflowId, projectId, { cause: error });
  }
  if (toExecutionStatus(description.status.name) === 'running') throw new BudgetRunningError(workflowId, projectId);
  return description;
}

/** Input that continues a closed run. */
async function inputFromState(target: BudgetTarget, last: WorkflowExecutionDescription): Promise<ProjectBudgetInput> {
  const { client, projectId } = target;
  const { workflowId, runId } = last;
  const lost = (reason: string, options?: ErrorOptions) =>
    new BudgetStateLostError(workflowId, projectId, reason, options);
  let state: unknown;
  try {
    const unbegun = await inputOfUnbegun(target, runId);
    if (unbegun) return unbegun;
    const handle = client.workflow.getHandle(workflowId, runId);
    state = await client.withDeadline(Date.now() + STATE_QUERY_TIMEOUT_MS, () => handle.query(carriedStateQuery));
  } catch (error) {
    const options = { cause: error };
    if (error instanceof QueryNotRegisteredError) throw lost('its workflow failed before it had one', options);
    // A query waits for a worker: without one it ends at the deadline, just as without a server.
    await describeStopped(target);
    if (!isPassingTrouble(error) && !hasNoPoller(error)) throw lost(grpcDetails(error) ?? String(error), options);
    const reason = `no worker polls ${last.taskQueue}, or it is overloaded; reading the last state needs one, so start it first`;
    throw new WorkerUnavailableError(workflowId, reason, options);
  }
  const parsed = parseInput(carriedStateSchema, state);
  if (!parsed.ok) throw lost(`it is not as this version writes it: ${describeIssues(parsed.issues)}`);
  return { projectId, settings: parsed.value.settings, restored: state };
}

/** A run that was stopped before it did anything has no state of its own: it is started again as it was. */
async function inputOfUnbegun(
  { client, projectId }: BudgetTarget,
  runId: string,
): Promise<ProjectBudgetInput | undefined> {
  const {
    args: [input, carried],
    hasBegun,
  } = await callTemporal(client, () => readRunStart(client, projectBudgetWorkflowId(projectId), runId));
  if (hasBegun) return undefined;
  const parsedState = parseInput(carriedStateSchema, carried);
  if (parsedState.ok) return { projectId, settings: parsedState.value.settings, restored: carried };
  const parsedInput = parseInput(projectBudgetInputSchema, input);
  return parsedInput.ok ? parsedInput.value : undefined;
}

/** The limit that was in force last, as far as that can be told. */
async function lastSettings(target: BudgetTarget, last: WorkflowExecutionDescription): Promise<BudgetSettings> {
  try {
    return (await inputFromState(target, last)).settings;
  } catch (error) {
    if (!(error instanceof BudgetStateLostError || error instanceof WorkerUnavailableError)) throw error;
  }
  try {
    const { args } = await callTemporal(target.client, () => readRunStart(target.client, last.workflowId, last.runId));
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

/** The server's answer to a query where no worker has polled for minutes. */
function hasNoPoller(error: unknown): boolean {
  return /no poller/i.test(grpcDetails(error) ?? '');
}
