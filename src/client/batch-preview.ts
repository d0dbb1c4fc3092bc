import type { Client } from '@temporalio/client';
import { fillItem, templateOf } from '../contract/batch-input.js';
import { defined } from '../contract/defined.js';
import {
  batchItemKey,
  type BudgetStatus,
  type FollowUpInput,
  followUpBatchWorkflowId,
  followUpWorkflowId,
  type PauseReason,
} from '../contract/index.js';
import { iso } from '../contract/durations.js';
import { type BudgetSettings, isUndelivered } from '../contract/protocol.js';
import { DIGEST_MEMO } from './batch.js';
import type { BudgetHandle } from './budget.js';
import { checkBatch, type StartBatchInput } from './hand-over.js';
import { callTemporal } from './temporal.js';
import { describeIfKnown, fewAtATime } from '../temporal/lookups.js';

/** What a batch would send, and what stands in its way. Instants are ISO 8601 in UTC. */
export interface BatchPreview {
  batchId: string;
  /** Items of the batch. */
  total: number;
  /** The id of the batch was used before: with the same input it is that batch. */
  alreadyStarted: boolean;
  /** It was used with other input, so that `startBatch` would refuse it. */
  inputDiffers: boolean;
  /** Workflow ids of its items that exist already. Nothing would be sent for these. */
  usedKeys: string[];
  /** In the order of their first items. */
  projects: ProjectPreview[];
  /** The latest of its projects; missing if it is missing for one of them. */
  earliestEndAt?: string;
}

/** What a batch would find at the budget of one project. */
export interface ProjectPreview {
  projectId: string;
  /** Messages that the batch would send in this project, or still sends if it runs already. */
  toSend: number;
  /** Messages in a window. */
  limit: number;
  windowMs: number;
  /** Slots that are free now for the lane of these items. */
  freeSlots: number;
  /** Follow-ups in line for a slot before these items. */
  waiting: number;
  /** Set if the budget sends nothing now. Without `until`, somebody has to resume or restore it. */
  blocked?: { reasons: (PauseReason | 'budget-stopped')[]; until?: string; note?: string };
  /**
   * When the last message may be sent at the earliest: at the limit, with no other follow-ups, and no wait for jobs or for
   * `maxOpen`. Missing if the budget is blocked without an end, or its limit is 0.
   */
  earliestEndAt?: string;
}

/** See `FollowUpClient.planBatch`. @param settings of a project's budget that does not exist yet */
export async function previewBatch(
  client: Client,
  input: StartBatchInput,
  budgetOf: (projectId: string) => BudgetHandle,
  settings: BudgetSettings,
): Promise<BatchPreview> {
  const { batchId, firstInput, items, digest } = checkBatch(input);
  const template = templateOf(firstInput);
  const projects = new Map<string, { toSend: number; isInteractive: boolean }>();
  const ids = items.map((item, index) => {
    const { projectId, jobId, lane } = fillItem(item, template) as FollowUpInput;
    const project = projects.get(projectId) ?? { toSend: 0, isInteractive: false };
    project.isInteractive ||= lane === 'interactive';
    projects.set(projectId, project);
    return { project, workflowId: followUpWorkflowId({ projectId, jobId, key: batchItemKey(batchId, index) }) };
  });
  const describe = (workflowId: string) => callTemporal(client, () => describeIfKnown(client, workflowId));
  const batch = await describe(followUpBatchWorkflowId({ batchId }));
  const inputDiffers = batch !== undefined && batch.memo?.[DIGEST_MEMO] !== digest;
  const sends = !batch || (!inputDiffers && batch.status.name === 'RUNNING');
  const isUsed = await fewAtATime(ids, async ({ workflowId, project }) => {
    const found = await describe(workflowId);
    if (!found && sends) project.toSend += 1;
    return found !== undefined;
  });
  const previews = await fewAtATime([...projects], async ([projectId, project]): Promise<ProjectPreview> => {
    const budget = budgetOf(projectId);
    const [state, status = { ...NOTHING_USED, ...settings }] = await Promise.all([budget.state(), budget.status()]);
    return { projectId, toSend: project.toSend, ...lookAhead(status, project, state === 'stopped', Date.now()) };
  });
  const ends = previews.flatMap(({ earliestEndAt }) => earliestEndAt ?? []);
  return {
    batchId,
    total: items.length,
    alreadyStarted: batch !== undefined,
    inputDiffers,
    usedKeys: ids.flatMap(({ workflowId }, index) => (isUsed[index] ? workflowId : [])),
    projects: previews,
    ...defined({ earliestEndAt: ends.length === previews.length ? ends.sort().at(-1) : undefined }),
  };
}

type Seen = Pick<BudgetStatus, 'limit' | 'windowMs' | 'reserve' | keyof typeof NOTHING_USED> &
  Partial<Pick<BudgetStatus, 'nextFreeSlotAt' | 'paused'>>;

const NOTHING_USED = {
  used: 0,
  waitingTotal: 0,
  waitingForJob: 0,
  waitingInBatchLane: 0,
  lastSends: [] as BudgetStatus['lastSends'],
};

function lookAhead(
  seen: Seen,
  { toSend, isInteractive }: { toSend: number; isInteractive: boolean },
  isStopped: boolean,
  nowMs: number,
): Omit<ProjectPreview, 'projectId' | 'toSend'> {
  const { limit, windowMs, reserve, used, paused, nextFreeSlotAt = nowMs, lastSends } = seen;
  const inLine = seen.waitingTotal - seen.waitingForJob - (isInteractive ? seen.waitingInBatchLane : 0);
  const [most, waiting] = [Math.max(0, limit - (isInteractive ? 0 : reserve)), Math.max(0, inLine)];
  const freeSlots = Math.max(0, most - used);
  // The status names only the latest sends, and some that took no slot. The other slots are free at the time of the first.
  const spent = lastSends.flatMap(({ outcome, sendNumber, settledAt = nowMs }) => {
    if (outcome === 'taken') return Array<string | number>(sendNumber).fill(settledAt);
    return outcome && isUndelivered(outcome) ? [] : [settledAt];
  });
  const ends = spent
    .slice(0, used)
    .map((settledAt) => toMs(settledAt) + windowMs)
    .sort((one, other) => one - other);
  const taken = [...Array<number>(used - ends.length).fill(toMs(nextFreeSlotAt)), ...ends];
  const slots = [...Array<number>(freeSlots).fill(nowMs), ...taken.slice(Math.max(0, used - most))];
  const isEndless = isStopped || (paused !== undefined && paused.until === undefined);
  const resumesMs = isEndless ? Infinity : toMs(paused?.until ?? nowMs);
  const place = waiting + toSend - 1;
  const slotMs = Math.max(slots[place % most] ?? Infinity, resumesMs);
  const lastMs = toSend === 0 ? nowMs : slotMs + Math.floor(place / most) * windowMs;
  const reasons = [...(isStopped ? ['budget-stopped' as const] : []), ...(paused?.reasons ?? [])];
  const blocked = defined({ reasons, until: isStopped ? undefined : paused?.until, note: paused?.note });
  return {
    ...{ limit, windowMs, freeSlots, waiting },
    ...(reasons.length > 0 && { blocked }),
    ...(Number.isFinite(lastMs) && { earliestEndAt: iso(lastMs) }),
  };
}

function toMs(instant: string | number): number {
  return new Date(instant).getTime();
}
