import { TypedSearchAttributes, WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  allHandlersFinished,
  CancellationScope,
  ChildWorkflowCancellationType,
  condition,
  currentUpdateInfo,
  getExternalWorkflowHandle,
  ParentClosePolicy,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  startChild,
  upsertSearchAttributes,
  WorkflowIdReusePolicy,
  workflowInfo,
} from '@temporalio/workflow';
import type { LookedUpPart, LookUps } from '../activities/batch-look-ups.js';
import { Batch, type BatchState, type PartInput } from '../batch/batch.js';
import { describeBatch } from '../batch/details.js';
import type { PartOrder } from '../batch/orders.js';
import { hashOfItems, jsonBytes, MAX_PARTS, partSizes, tooManyParts } from '../batch/pack.js';
import { parseUncheckedBatchInput, templateOf, unfilledItemsOf } from '../contract/batch-input.js';
import {
  addItemsUpdate,
  batchItemsQuery,
  batchStatusQuery,
  DEFAULT_MAX_OPEN,
  type FollowUpBatchResult,
  followUpBatchWorkflowId,
  type InputIssue,
  MAX_PIECE_BYTES,
  parseFollowUpBatchWorkflowId,
  parseInput,
  sealUpdate,
  SearchAttribute,
  WorkflowType,
} from '../contract/index.js';
import { Alarm } from './alarm.js';
import {
  batchMessageSchemas,
  LOOK_UP_OPTIONS,
  pageRange,
  partOrderSignal,
  partReportSignal,
} from './batch-messages.js';
import { invalidInput } from './failures.js';
import { continueAsNew, isContinued, isNextRunDue, STRANGE_STATE } from './this-run.js';

/**
 * Runs many follow-ups: a bounded number at a time, those of one job one after another, with one outcome for every
 * item. Parts, which are workflows of their own, hold the items, so that neither a history nor a payload comes near its
 * limit.
 *
 * A cancelled batch also ends with a result. Items that were not started are withdrawn, open ones are cancelled, and
 * each item says whether its message was delivered.
 *
 * @param input {@link FollowUpBatchInput} as plain JSON; `null` if the run is continued
 * @param carried state of the previous run; only continue-as-new may give it
 * @throws ApplicationFailure `InvalidInput` if the batch itself is invalid; a bad item is an error of that item alone
 */
export async function followUpBatch(input: unknown, carried?: BatchState): Promise<FollowUpBatchResult> {
  const batch = carried && isContinued() ? new Batch(carried) : newBatch(input, carried !== undefined);
  const runner = new BatchRunner(batch);
  return CancellationScope.nonCancellable(() => runner.run());
}

function newBatch(input: unknown, strangeState: boolean): Batch {
  const { workflowId, startTime } = workflowInfo();
  const parsed = parseUncheckedBatchInput(input);
  const issues: InputIssue[] = parsed.ok ? [] : [...parsed.issues];
  if (strangeState) issues.push(STRANGE_STATE);
  const ids = parseFollowUpBatchWorkflowId(workflowId);
  if (ids?.part !== undefined || !ids) {
    const message = `must be follow-up-batch/BATCH, with at most 120 characters for BATCH (given ${JSON.stringify(workflowId)})`;
    issues.push({ field: 'workflowId', message });
  }
  if (!parsed.ok || !ids || issues.length > 0) throw invalidInput(issues);
  const { batchId } = ids;
  const [items, template] = [unfilledItemsOf(parsed.value), templateOf(parsed.value)];
  if (partSizes(items.map(jsonBytes), jsonBytes(template)).length > MAX_PARTS) {
    throw invalidInput([tooManyParts(parsed.value)]);
  }
  upsertSearchAttributes([{ key: SearchAttribute.batchId, value: batchId }]);
  return Batch.create({
    batchId,
    maxOpen: parsed.value.maxOpen ?? DEFAULT_MAX_OPEN,
    template,
    sealed: parsed.value.open !== true,
    startedAtMs: startTime.getTime(),
    items,
  });
}

/** Small pieces that arrive within this time share a part. */
const GATHER_MS = 1_000;
/** How often this run looks up a part whose end Temporal does not report to it. */
const WATCH_EVERY_MS = 10 * 60_000;
/** Each piece is in the history twice. Above 4 MiB, a client with the usual limits could not read a page of it. */
const MOST_HISTORY_BYTES = 2 * 1_024 * 1_024;
/** Most items with errors in the current details. */
const SHOWN_ERRORS = 10;

const { lookUpPart } = proxyActivities<LookUps>(LOOK_UP_OPTIONS);

/** Connects the rules of a batch to Temporal: updates and reports in, parts and orders out. */
export class BatchRunner {
  #woken = true;
  /** Orders and look-ups under way. */
  #underWay = 0;
  #isStartingPart = false;
  /** Parts whose end Temporal reports to this run. */
  readonly #watched = new Set<number>();
  readonly #lookedUp = new Set<number>();
  readonly #alarm = new Alarm('look for parts', () => {
    this.#woken = true;
  });

  constructor(readonly batch: Batch) {
    setHandler(
      addItemsUpdate,
      async (items, offset) => {
        this.#woken = true;
        const total = batch.add(items, offset ?? undefined, updateId());
        await this.#hasRoom();
        return { total };
      },
      { validator: (items: unknown, offset?: unknown) => this.#checkPiece(items, offset) },
    );
    setHandler(
      sealUpdate,
      () => {
        this.#woken = true;
        return { total: batch.seal() };
      },
      { validator: (total?: unknown) => this.#checkTotal(total) },
    );
    const schemas = batchMessageSchemas();
    setHandler(partReportSignal, (message) => {
      const report = parseInput(schemas.partReport, message);
      if (report.ok && batch.take(report.value, Date.now())) this.#woken = true;
    });
    setHandler(batchStatusQuery, () => batch.status());
    setHandler(batchItemsQuery, (range) => {
      const { offset, limit } = pageRange(range, 0);
      return batch.page(offset, limit);
    });
    // Only noted and never thrown: the parts end what is open, and every item gets its outcome.
    CancellationScope.current().cancelRequested.catch(() => {
      batch.cancel(Date.now());
      this.#woken = true;
    });
  }

  /** Runs until every item has an outcome and no more can come. */
  async run(): Promise<FollowUpBatchResult> {
    const { batch } = this;
    for (;;) {
      this.#woken = false;
      const nowMs = Date.now();
      const isDue = this.#isContinueAsNewDue();
      if (!isDue) for (const { part, order } of batch.ordersToSend(nowMs)) void this.#tell(part, order);
      this.#watch(nowMs);
      setCurrentDetails(describeBatch(batch.status(), batch.firstErrors(SHOWN_ERRORS), nowMs));
      if (batch.hasBacklog) {
        if (!batch.isNextPartFull && !isDue) await condition(() => batch.isNextPartFull, GATHER_MS);
        this.#isStartingPart = true;
        await this.#startPart(batch.nextPart(Date.now()));
        this.#isStartingPart = false;
        continue;
      }
      const isAnswering = !allHandlersFinished();
      const isIdle = this.#underWay === 0 && !isAnswering;
      if (batch.hasEnded && isIdle) return batch.result();
      if (isDue && isIdle) await continueAsNew<typeof followUpBatch>(null, batch.carry());
      await condition(() => this.#woken || (isAnswering && allHandlersFinished()));
    }
  }

  /** Parts are started one after another: each start carries items, and the workflow tasks must stay small. */
  async #startPart(input: PartInput): Promise<void> {
    const { batchId, part, first, items, ended } = input;
    try {
      const child = await startChild(WorkflowType.followUpBatchPart, {
        workflowId: followUpBatchWorkflowId({ batchId, part }),
        args: [input],
        workflowIdReusePolicy: ended ? WorkflowIdReusePolicy.ALLOW_DUPLICATE : WorkflowIdReusePolicy.REJECT_DUPLICATE,
        parentClosePolicy: ParentClosePolicy.ABANDON,
        cancellationType: ChildWorkflowCancellationType.ABANDON,
        staticSummary: `Items ${first + 1} to ${first + items.length} of batch ${batchId}`,
        typedSearchAttributes: new TypedSearchAttributes([{ key: SearchAttribute.batchId, value: batchId }]),
      });
      this.#watched.add(part);
      // Its last report comes before its end. What it has not reported by then is looked up.
      const isOver = () => {
        this.#watched.delete(part);
        void this.#lookUp(part);
      };
      void child.result().then(isOver, isOver);
    } catch (error) {
      // The part existed before this run, as after a reset. It reports everything that it knows, or is looked up.
      if (error instanceof WorkflowExecutionAlreadyStartedError) {
        void this.#tell(part, this.batch.askForAll(part, Date.now()), hashOfItems(input));
      } else {
        this.batch.noteGone(part, { ended: [] }, Date.now());
        this.#woken = true;
      }
    }
  }

  async #tell(part: number, order: PartOrder, itemsHash?: string): Promise<void> {
    this.#underWay += 1;
    const { batchId } = this.batch;
    try {
      await getExternalWorkflowHandle(followUpBatchWorkflowId({ batchId, part })).signal(partOrderSignal, order);
      this.batch.noteAlive(part, Date.now());
    } catch {
      await this.#lookUp(part, itemsHash);
    }
    this.#underWay -= 1;
    this.#woken = true;
  }

  /**
   * Looks up a part that no longer runs although not all its items have ended: finds out how they ended, and starts the
   * part again for the others.
   */
  async #lookUp(part: number, itemsHash?: string): Promise<void> {
    const { batch } = this;
    if (this.#lookedUp.has(part) || batch.parts[part]?.hasEnded) return;
    this.#lookedUp.add(part);
    this.#underWay += 1;
    let found: LookedUpPart = { ended: [] };
    try {
      found = await lookUpPart({ batchId: batch.batchId, part, ...(itemsHash !== undefined && { itemsHash }) });
    } catch {
      // After enough tries, what is not known stays unknown.
    }
    this.#lookedUp.delete(part);
    if (found.isOpen) {
      // Another run of it is open, as after a reset of the part.
      void this.#tell(part, batch.askForAll(part, Date.now()));
    } else {
      const again = batch.noteGone(part, found, Date.now());
      if (again) await this.#startPart(again);
    }
    this.#underWay -= 1;
    this.#woken = true;
  }

  #watch(nowMs: number): void {
    for (const [part, { hasEnded, aliveAtMs, order }] of this.batch.parts.entries()) {
      if (hasEnded || this.#watched.has(part) || this.#lookedUp.has(part)) continue;
      if (nowMs < aliveAtMs + WATCH_EVERY_MS) {
        this.#alarm.set(aliveAtMs + WATCH_EVERY_MS);
        continue;
      }
      this.batch.noteAlive(part, nowMs);
      void this.#tell(part, order);
    }
  }

  /**
   * Makes callers who hand over a list faster than its parts start wait before the next piece. If the run is to be
   * continued, they wait until all items are in parts that have started. Otherwise there would always be a next piece,
   * and the run would never end.
   */
  async #hasRoom(): Promise<void> {
    const { batch } = this;
    const isDone = () => !batch.hasBacklog && !this.#isStartingPart;
    await condition(() => isDone() || (!batch.isNextPartFull && !this.#isContinueAsNewDue()));
  }

  /**
   * Any time is good: if the server applies an update again on the next run (temporal#6375), that run knows it by its
   * id.
   */
  #isContinueAsNewDue(): boolean {
    return isNextRunDue() || workflowInfo().historySize > MOST_HISTORY_BYTES;
  }

  #checkPiece(items: unknown, offset: unknown): void {
    if (!Array.isArray(items) || items.length === 0) throw refusal('items', 'must be a list with at least one item');
    if (offset !== undefined && offset !== null && !isCount(offset)) throw refusal('offset', 'must be a whole number');
    const bytes = jsonBytes(items);
    if (items.length > 1 && bytes > MAX_PIECE_BYTES) {
      throw refusal('items', `must be at most ${MAX_PIECE_BYTES} bytes of JSON, or a single item (given ${bytes})`);
    }
    if (this.batch.knows(updateId())) return;
    const issue = this.batch.issueWith(items, isCount(offset) ? offset : undefined);
    if (issue !== undefined) throw refusal('items', issue);
  }

  #checkTotal(total: unknown): void {
    const has = this.batch.status().total;
    if (total === undefined || total === null || total === has) return;
    throw refusal('total', `must be ${has}, the number of items so far (given ${JSON.stringify(total)})`);
  }
}

function refusal(field: string, message: string) {
  return invalidInput([{ field, message }]);
}

function updateId(): string {
  return currentUpdateInfo()?.id ?? '';
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}
