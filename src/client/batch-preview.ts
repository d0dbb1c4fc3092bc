import type { Client } from '@temporalio/client';
import { fillItem, templateOf } from '../contract/batch-input.js';
import { defined } from '../contract/defined.js';
import { iso } from '../contract/durations.js';
import { type BudgetStatus, type FollowUpInput, followUpBatchWorkflowId, type PauseReason } from '../contract/index.js';
import type { BudgetSettings } from '../contract/protocol.js';
import { describeIfKnown, fewAtATime } from '../temporal/lookups.js';
import { DIGEST_MEMO } from './batch.js';
import type { BudgetHandle } from './budget.js';
import { checkBatch, type StartBatchInput } from './hand-over.js';
import { callTemporal } from './temporal.js';

/** What a batch would send, and what prevents it. Times are ISO 8601 in UTC. */
export interface BatchPreview {
  batchId: string;
  /** Number of items. */
  total: number;
  /** Whether the id was used before: with the same input it is that batch. */
  alreadyStarted: boolean;
  /** Whether it was used with other input, which `startBatch` refuses. */
  inputDiffers: boolean;
  /** In the order of their first items. */
  projects: ProjectPreview[];
  /** The latest of its projects'; missing if one of them has none. */
  earliestEndAt?: string;
}

/** What a batch would find in a project's budget. */
export interface ProjectPreview {
  projectId: string;
  /** Messages that the batch would send in this project; 0 if its id was used before. */
  toSend: number;
  /** Messages in a window. */
  limit: number;
  windowMs: number;
  /** Free slots for these items' lane. */
  freeSlots: number;
  /** Follow-ups in line before these items. */
  waiting: number;
  /** Set if the budget sends nothing now. Without `until`, an operator has to resume or restore it. */
  blocked?: { reasons: (PauseReason | 'budget-stopped')[]; until?: string; note?: string };
  /**
   * Earliest time of the last message: at the limit, without other follow-ups, and without waiting for jobs or
   * `maxOpen`. Missing if there is nothing to send, the budget is blocked without an end, or its limit is 0.
   */
  earliestEndAt?: string;
}

/** See `FollowUpClient.planBatch`. @param settings of budgets that do not exist yet */
export async function previewBatch(
  client: Client,
  input: StartBatchInput,
  budgetOf: (projectId: string) => BudgetHandle,
  settings: BudgetSettings,
): Promise<BatchPreview> {
  const { batchId, firstInput, items, digest } = checkBatch(input);
  const started = await callTemporal(client, () => describeIfKnown(client, followUpBatchWorkflowId({ batchId })));
  const template = templateOf(firstInput);
  const lanes = new Map<string, { toSend: number; isInteractive: boolean }>();
  for (const item of items) {
    const { projectId, lane } = fillItem(item, template) as FollowUpInput;
    const { toSend, isInteractive } = lanes.get(projectId) ?? { toSend: 0, isInteractive: false };
    lanes.set(projectId, { toSend: started ? 0 : toSend + 1, isInteractive: isInteractive || lane === 'interactive' });
  }
  const projects = await fewAtATime([...lanes], async ([projectId, lane]): Promise<ProjectPreview> => {
    const budget = budgetOf(projectId);
    const [state, status] = await Promise.all([budget.state(), budget.status()]);
    const seen = { ...NOTHING_USED, ...settings, ...status };
    return { projectId, toSend: lane.toSend, ...lookAhead(seen, lane, state === 'stopped') };
  });
  const ends = projects.flatMap(({ earliestEndAt }) => earliestEndAt ?? []);
  return {
    ...{ batchId, total: items.length, alreadyStarted: started !== undefined },
    inputDiffers: started !== undefined && started.memo?.[DIGEST_MEMO] !== digest,
    projects,
    ...defined({ earliestEndAt: ends.length === projects.length ? ends.sort().at(-1) : undefined }),
  };
}

const NOTHING_USED = { used: 0, waitingTotal: 0, waitingForJob: 0, waitingInBatchLane: 0 };

type Seen = BudgetSettings & typeof NOTHING_USED & Partial<Pick<BudgetStatus, 'nextFreeSlotAt' | 'paused'>>;

function lookAhead(
  { limit, windowMs, reserve, used, paused, nextFreeSlotAt, ...line }: Seen,
  { toSend, isInteractive }: { toSend: number; isInteractive: boolean },
  isStopped: boolean,
): Omit<ProjectPreview, 'projectId' | 'toSend'> {
  const nowMs = Date.now();
  const inLine = line.waitingTotal - line.waitingForJob - (isInteractive ? line.waitingInBatchLane : 0);
  const [most, waiting] = [Math.max(0, limit - (isInteractive ? 0 : reserve)), Math.max(0, inLine)];
  // Each send is one window after the send `most` places before it.
  const count = used + waiting + toSend;
  const windows = Math.floor((count - 1) / most);
  const isAfterUsed = count - windows * most > used || nextFreeSlotAt === undefined;
  const slotMs = (isAfterUsed ? nowMs : Date.parse(nextFreeSlotAt) - windowMs) + windows * windowMs;
  const isEndless = toSend === 0 || isStopped || most === 0 || (paused && paused.until === undefined);
  const endMs = Math.max(nowMs, slotMs, Date.parse(paused?.until ?? iso(nowMs)));
  const reasons = [...(isStopped ? ['budget-stopped' as const] : []), ...(paused?.reasons ?? [])];
  const blocked = defined({ reasons, until: isStopped ? undefined : paused?.until, note: paused?.note });
  return {
    ...{ limit, windowMs, freeSlots: Math.max(0, most - used), waiting },
    ...(reasons.length > 0 && { blocked }),
    ...(!isEndless && { earliestEndAt: iso(endMs) }),
  };
}
