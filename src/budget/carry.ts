import { z } from 'zod';
import { defined } from '../contract/defined.js';
import { instantMsSchema } from '../contract/durations.js';
import {
  idSchema,
  type InputIssue,
  lanes,
  parseFollowUpWorkflowId,
  parseInput,
  sendOutcomes,
} from '../contract/index.js';
import { budgetSettingsSchema, type JobFingerprint, type ProjectBudgetInput } from '../contract/protocol.js';
import { assumeFull, reopen } from './operator.js';
import { type BudgetState, type Grant, newState, type Turn, type Waiter } from './state.js';
import { budgetStatus } from './status.js';

const cellsSchema = z.array(z.array(z.union([z.string(), z.number(), z.null()])));

/**
 * A budget's state as continue-as-new carries it: plain JSON, and small, because the server warns of payloads above 512
 * KiB. Rows are lists without names, and their times are milliseconds before `atMs`.
 */
export const carriedStateSchema = z.strictObject({
  version: z.literal(2),
  projectId: idSchema,
  settings: budgetSettingsSchema,
  ceiling: z.strictObject({ limit: z.number(), windowMs: z.number() }).exactOptional(),
  atMs: instantMsSchema,
  grantCount: z.number(),
  arrivalCount: z.number(),
  limitedCount: z.number(),
  overtakenCount: z.number(),
  answersInMs: z.number().exactOptional(),
  resumedAtMs: z.number().exactOptional(),
  ledgerSinceMs: z.number(),
  memorySinceMs: z.number().exactOptional(),
  lostBeforeMs: z.number().exactOptional(),
  assumedFullFromMs: z.number().exactOptional(),
  pause: z
    .strictObject({
      reason: z.enum(['limited', 'credentials']),
      sinceMs: z.number().exactOptional(),
      untilMs: z.number(),
      step: z.number(),
      probe: z.strictObject({ workflowId: z.string(), sendNumber: z.number() }).exactOptional(),
    })
    .exactOptional(),
  keyRefused: z.strictObject({ sinceMs: z.number(), untilMs: z.number() }).exactOptional(),
  operatorPause: z
    .strictObject({
      sinceMs: z.number().exactOptional(),
      untilMs: z.number().exactOptional(),
      note: z.string().exactOptional(),
    })
    .exactOptional(),
  pace: z
    .strictObject({
      refusedAtMs: z.number(),
      atOnce: z.number(),
      gapMs: z.number().exactOptional(),
      nextAtMs: z.number().exactOptional(),
    })
    .exactOptional(),
  waiters: cellsSchema,
  grants: cellsSchema,
  spent: z.array(z.number()),
  turns: cellsSchema,
  /** Entries separated by `;`, fields by `,`, numbers in base 36. Its 7,500 entries are most of the state. */
  memory: z.string(),
  lastJobs: cellsSchema,
  orders: z.array(z.string()),
});
export type CarriedState = z.infer<typeof carriedStateSchema>;
type Cell = CarriedState['waiters'][number][number];

/** The whole state as plain JSON; inverse of {@link restoreState}. */
export function carryState(state: BudgetState): CarriedState {
  const { projectId } = state;
  const atMs = state.lastTimeMs;
  const ago = (ms: number | undefined): Cell => (ms === undefined ? null : atMs - ms);
  const name = (workflowId: string) => shorten(projectId, workflowId);
  return {
    version: 2,
    ...unchanged(state),
    atMs,
    waiters: state.waiters.map((waiter) => [
      name(waiter.workflowId),
      jobCell(waiter),
      lanes.indexOf(waiter.lane) * 2 + (waiter.hold ? 1 : 0),
      waiter.sendNumber,
      waiter.arrival,
      ago(waiter.newestAskAtMs),
      ago(waiter.heardAtMs),
      ago(waiter.dueAtMs),
      ago(waiter.invitedAtMs),
      ago(waiter.quietUntilMs),
    ]),
    grants: state.grants.map((grant) => [
      name(grant.workflowId),
      jobCell(grant),
      grant.sendNumber,
      // A settled send no longer needs it.
      grant.token ?? null,
      grant.messageTag,
      ago(grant.firstRunStartedAtMs),
      grant.askNumber ?? null,
      ago(grant.grantedAtMs),
      grant.leaseMs,
      grant.drainMs,
      ago(grant.settledAtMs),
      grant.outcome === undefined ? null : sendOutcomes.indexOf(grant.outcome),
      grant.message ?? null,
      ...(grant.isAwaited ? [null, 1] : grant.statusCode === undefined ? [] : [grant.statusCode]),
    ]),
    spent: state.spent.map((ms) => atMs - ms),
    turns: [...state.turns].map(([jobId, { workflowId, checkedAtMs }]) => [
      name(workflowId),
      jobCell({ workflowId, jobId }),
      ...(checkedAtMs === undefined ? [] : [atMs - checkedAtMs]),
    ]),
    memory: encodeMemory(state.memory, atMs),
    lastJobs: [...state.lastJobs].map(([key, job]) => [key, job.status, job.prLinkHash, job.archivedAt]),
  };
}

export function restoreState(carried: CarriedState): BudgetState {
  const { projectId, atMs } = carried;
  const at = (cell: Cell | undefined): number => atMs - Number(cell);
  const atIfSet = (cell: Cell | undefined) => (isSet(cell) ? at(cell) : undefined);
  const workflowId = (cell: Cell | undefined) => lengthen(projectId, String(cell));
  return {
    ...unchanged(carried),
    lastTimeMs: atMs,
    waiters: carried.waiters.map(
      ([id, job, flags, sendNumber, arrival, newestAsk, heard, due, invited, quiet]): Waiter => ({
        workflowId: workflowId(id),
        jobId: jobOf(workflowId(id), job),
        lane: lanes[Math.floor(Number(flags) / 2)] ?? 'interactive',
        hold: Number(flags) % 2 === 1,
        sendNumber: Number(sendNumber),
        arrival: Number(arrival),
        newestAskAtMs: at(newestAsk),
        heardAtMs: at(heard),
        dueAtMs: at(due),
        ...defined({ invitedAtMs: atIfSet(invited), quietUntilMs: atIfSet(quiet) }),
      }),
    ),
    grants: carried.grants.map(
      ([
        id,
        job,
        sendNumber,
        token,
        tag,
        firstRun,
        askNumber,
        granted,
        leaseMs,
        drainMs,
        settled,
        outcome,
        message,
        code,
        awaited,
      ]): Grant => ({
        workflowId: workflowId(id),
        jobId: jobOf(workflowId(id), job),
        sendNumber: Number(sendNumber),
        ...defined({ token: textOf(token) ?? undefined }),
        messageTag: String(tag),
        firstRunStartedAtMs: at(firstRun),
        ...defined({ askNumber: numberOf(askNumber) }),
        grantedAtMs: at(granted),
        leaseMs: Number(leaseMs),
        drainMs: Number(drainMs),
        ...defined({
          settledAtMs: atIfSet(settled),
          message: textOf(message) ?? undefined,
          statusCode: numberOf(code),
        }),
        ...outcomeOf(outcome),
        ...(isSet(awaited) && { isAwaited: true as const }),
      }),
    ),
    spent: carried.spent.map((ms) => atMs - ms),
    turns: new Map(
      carried.turns.map(([owner, job, checked]): [string, Turn] => [
        jobOf(workflowId(owner), job),
        defined({ workflowId: workflowId(owner), checkedAtMs: atIfSet(checked) }),
      ]),
    ),
    memory: decodeMemory(carried.memory, atMs),
    lastJobs: new Map(
      carried.lastJobs.map(([key, status, prLinkHash, archivedAt]): [string, JobFingerprint] => [
        String(key),
        { status: textOf(status), prLinkHash: textOf(prLinkHash), archivedAt: textOf(archivedAt) },
      ]),
    ),
  };
}

/** Parts of the state that are carried in another form. */
type Encoded = 'waiters' | 'grants' | 'spent' | 'turns' | 'memory' | 'lastJobs';
type Unchanged = Pick<BudgetState, Exclude<keyof BudgetState & keyof CarriedState, Encoded>>;

function unchanged(from: Unchanged): Unchanged {
  const { projectId, settings, grantCount, arrivalCount, limitedCount, overtakenCount, ledgerSinceMs, orders } = from;
  const { answersInMs, ceiling, resumedAtMs, memorySinceMs, lostBeforeMs, assumedFullFromMs } = from;
  const { pause, operatorPause, pace, keyRefused } = from;
  return {
    ...{ projectId, settings, grantCount, arrivalCount, limitedCount, overtakenCount, ledgerSinceMs, orders },
    ...defined({ answersInMs, ceiling, resumedAtMs, memorySinceMs, lostBeforeMs, assumedFullFromMs }),
    ...defined({ pause, operatorPause, pace, keyRefused }),
  };
}

/**
 * Entries in the order of their last touches, each relative to the previous one. A closed id no longer needs its
 * arrival.
 */
function encodeMemory(memory: BudgetState['memory'], atMs: number): string {
  let beforeMs = atMs;
  return [...memory]
    .map(([key, entry]) => {
      const outcome = entry.outcome === undefined ? sendOutcomes.length : sendOutcomes.indexOf(entry.outcome);
      const numbers = [
        (entry.sendNumber * (sendOutcomes.length + 1) + outcome) * 2 + (entry.closed ? 1 : 0),
        entry.touchedAtMs - beforeMs,
        entry.touchedAtMs - entry.grantedAtMs,
        ...(entry.closed && entry.doubtfulNumber === undefined ? [] : [entry.arrival]),
        ...(entry.doubtfulNumber === undefined ? [] : [entry.doubtfulNumber]),
      ];
      beforeMs = entry.touchedAtMs;
      return [key, entry.messageTag, ...numbers.map((number) => number.toString(36))].join(',');
    })
    .join(';');
}

function decodeMemory(text: string, atMs: number): BudgetState['memory'] {
  const memory: BudgetState['memory'] = new Map();
  let touchedAtMs = atMs;
  for (const entry of text === '' ? [] : text.split(';')) {
    const [key = '', messageTag = '', ...fields] = entry.split(',');
    const numbers = fields.map((field) => parseInt(field, 36));
    const [flags = 0, touched = 0, granted = 0, arrival = 0, doubtfulNumber] = numbers;
    const outcomes = sendOutcomes.length + 1;
    touchedAtMs += touched;
    memory.set(key, {
      sendNumber: Math.floor(flags / 2 / outcomes),
      grantedAtMs: touchedAtMs - granted,
      ...outcomeOf(Math.floor(flags / 2) % outcomes),
      closed: flags % 2 === 1,
      arrival,
      touchedAtMs,
      messageTag,
      ...defined({ doubtfulNumber }),
    });
  }
  return memory;
}

/** A workflow id without the prefix that all follow-ups of a project share. */
function shorten(projectId: string, workflowId: string): string {
  const prefix = `follow-up/${projectId}/`;
  return workflowId.startsWith(prefix) ? workflowId.slice(prefix.length) : `/${workflowId}`;
}

function lengthen(projectId: string, text: string): string {
  return text.startsWith('/') ? text.slice(1) : `follow-up/${projectId}/${text}`;
}

/** The workflow id contains the job, which is carried only if it differs. */
function jobCell({ workflowId, jobId }: { workflowId: string; jobId: string }): Cell {
  return parseFollowUpWorkflowId(workflowId)?.jobId === jobId ? null : jobId;
}

function jobOf(workflowId: string, cell: Cell | undefined): string {
  return isSet(cell) ? String(cell) : (parseFollowUpWorkflowId(workflowId)?.jobId ?? '');
}

function outcomeOf(cell: Cell | undefined): Pick<Grant, 'outcome'> {
  const outcome = isSet(cell) ? sendOutcomes[Number(cell)] : undefined;
  return outcome === undefined ? {} : { outcome };
}

function textOf(cell: Cell | undefined): string | null {
  return isSet(cell) ? String(cell) : null;
}

function numberOf(cell: Cell | undefined): number | undefined {
  return isSet(cell) ? Number(cell) : undefined;
}

function isSet(cell: Cell | undefined): cell is string | number {
  return cell !== null && cell !== undefined;
}

/**
 * State of a budget's first run: a new one, the state of a budget that was stopped, or, if that is lost, one with every
 * slot used.
 */
export function beginState(
  { projectId, settings, restored, assumeFull: isLost, inFlightUntilMs }: ProjectBudgetInput,
  { startedAtMs, nowMs }: { startedAtMs: number; nowMs: number },
): { ok: true; state: BudgetState } | { ok: false; issues: InputIssue[] } {
  if (restored === undefined) {
    const state = newState(projectId, settings, startedAtMs);
    if (isLost) assumeFull(state, nowMs, inFlightUntilMs);
    return { ok: true, state };
  }
  // This workflow wrote it, in this or an older version, and it was read from the history. People do not write it.
  const parsed = parseInput(carriedStateSchema, restored);
  const state = parsed.ok && parsed.value.projectId === projectId ? restoreSound(parsed.value) : undefined;
  if (state) {
    reopen(state, nowMs);
    return { ok: true, state };
  }
  const issues = parsed.ok ? [] : parsed.issues.map(({ field, message }) => ({ field: `restored.${field}`, message }));
  return {
    ok: false,
    issues: [{ field: 'restored', message: `must be the state of a budget of ${projectId}` }, ...issues],
  };
}

/** Undefined if any timestamp is invalid: every later task would fail on it. */
function restoreSound(carried: CarriedState): BudgetState | undefined {
  const state = restoreState(carried);
  try {
    void budgetStatus(state, state.lastTimeMs);
    return state;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
