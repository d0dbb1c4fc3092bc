import { TypedSearchAttributes, WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  allHandlersFinished,
  CancellationScope,
  ChildWorkflowCancellationType,
  condition,
  currentUpdateInfo,
  getExternalWorkflowHandle,
  metricMeter,
  ParentClosePolicy,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  startChild,
  upsertSearchAttributes,
  WorkflowIdReusePolicy,
  workflowInfo,
} from '@temporalio/workflow';
import type { ItemFinder } from '../activities/find-items.js';
import { Batch, type BatchState } from '../batch/batch.js';
import { describeBatch } from '../batch/details.js';
import { jsonBytes, MAX_PARTS, partSizes, tooManyParts } from '../batch/pack.js';
import { parseUncheckedBatchInput, templateOf, unfilledItemsOf } from '../contract/batch-input.js';
import {
  batchMessageSchemas,
  type PartInput,
  type PartItems,
  type PartOrder,
  partOrderSignal,
  partReportSignal,
} from '../contract/batch-protocol.js';
import { defined } from '../contract/defined.js';
import {
  addItemsUpdate,
  batchItemsQuery,
  batchStatusQuery,
  continueBatchUpdate,
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
import { FIND_OPTIONS, pageRange } from './batch-options.js';
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
  const { maxOpen, canary, maxFailures, open } = parsed.value;
  const [items, template] = [unfilledItemsOf(parsed.value), templateOf(parsed.value)];
  if (partSizes(items.map(jsonBytes), jsonBytes(template)).length > MAX_PARTS) {
    throw invalidInput([tooManyParts(parsed.value)]);
  }
  upsertSearchAttributes([{ key: SearchAttribute.batchId, value: batchId }]);
  const start = {
    batchId,
    maxOpen: maxOpen ?? DEFAULT_MAX_OPEN,
    ...defined({ canary: canary ?? undefined, maxFailures: maxFailures ?? undefined }),
    template,
    sealed: open !== true,
    startedAtMs: startTime.getTime(),
  };
  return Batch.create(start, items);
}

/** Small pieces that arrive within this time share a part. */
const GATHER_MS = 1_000;
/**
 * A part that has reported nothing for this long is signalled, to see whether it still runs. Temporal does not report the
 * end of a child to a parent that was closed at that time and is reset later.
 */
const WATCH_EVERY_MS = 30 * 60_000;
/** Each piece is in the history twice. Above 4 MiB, a client with the usual limits could not read a page of it. */
const MOST_HISTORY_BYTES = 2 * 1_024 * 1_024;
/** Most items with errors in the current details. */
const SHOWN_ERRORS = 10;

const { findPart } = proxyActivities<ItemFinder>(FIND_OPTIONS);

/** Connects the rules of a batch to Temporal: updates and reports in, parts and orders out. */
export class BatchRunner {
  #woken = true;
  /** Orders and look-ups under way. */
  #underWay = 0;
  #isStartingPart = false;
  readonly #lookedUp = new Set<number>();
  /** The hold that the search attribute and the metric show. */
  #shownHold: string | undefined;
  readonly #alarm = new Alarm('look for parts', () => {
    this.#woken = true;
  });

  constructor(readonly batch: Batch) {
    this.#shownHold = batch.state.hold?.at;
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
    setHandler(
      continueBatchUpdate,
      () => {
        this.#woken = true;
        return { hold: batch.proceed() };
      },
      {
        validator: () => {
          if (!batch.canProceed) throw refusal('', 'the batch is not held');
        },
      },
    );
    const schemas = batchMessageSchemas();
    setHandler(partReportSignal, (message) => {
      const report = parseInput(schemas.partReport, message);
      if (!report.ok) return;
      if (batch.isStrange(report.value)) void this.#disown(report.value.part);
      else if (batch.take(report.value, Date.now())) this.#woken = true;
    });
    setHandler(batchStatusQuery, () => batch.status());
    setHandler(batchItemsQuery, (range) => {
      const { offset, limit } = pageRange(range, 0);
      return batch.page(offset, limit);
    });
    // Only noted and never thrown: the parts end what is open, and every item gets its outcome.
    CancellationScope.current().cancelRequested.catch(() => {
      batch.cancel();
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
      this.#show(nowMs);
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
      if (isDue && isIdle) await continueAsNew<typeof followUpBatch>(null, batch.state);
      await condition(() => this.#woken || (isAnswering && allHandlersFinished()));
    }
  }

  #show(nowMs: number): void {
    const status = this.batch.status();
    const failures = this.batch.state.kept.filter(({ status: end, error }) => error ?? end === 'failed');
    setCurrentDetails(describeBatch(status, failures.slice(0, SHOWN_ERRORS), nowMs));
    const { name, at } = status.hold ?? {};
    if (this.#shownHold === at) return;
    this.#shownHold = at;
    upsertSearchAttributes([{ key: SearchAttribute.state, value: name === undefined ? null : 'held' }]);
    if (name === undefined) return;
    metricMeter
      .createCounter('follow_up_batch_holds', undefined, 'Batches that were held, by the option that held them')
      .add(1, { name });
  }

  /** Parts are started one after another: each start carries items, and the workflow tasks must stay small. */
  async #startPart(input: PartInput): Promise<void> {
    const { batchId, part, first, items, again } = input;
    try {
      const child = await startChild(WorkflowType.followUpBatchPart, {
        workflowId: followUpBatchWorkflowId({ batchId, part }),
        args: [input],
        workflowIdReusePolicy: again ? WorkflowIdReusePolicy.ALLOW_DUPLICATE : WorkflowIdReusePolicy.REJECT_DUPLICATE,
        parentClosePolicy: ParentClosePolicy.ABANDON,
        cancellationType: ChildWorkflowCancellationType.ABANDON,
        staticSummary: `Items ${first + 1} to ${first + items.length} of batch ${batchId}`,
        typedSearchAttributes: new TypedSearchAttributes([{ key: SearchAttribute.batchId, value: batchId }]),
      });
      // Its last report comes before its end. If that report is missing, it was cut off.
      const lookUp = () => void this.#lookUp(part);
      void child.result().then(lookUp, lookUp);
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      // It was started before, as before a reset. It reports everything that it knows, or is started again.
      void this.#tell(part, this.batch.askForAll(part, Date.now()), input);
    }
  }

  /** @param input if it is known: what to start the part again with if it no longer runs */
  async #tell(part: number, order: PartOrder, input?: PartInput): Promise<void> {
    this.#underWay += 1;
    const { batchId } = this.batch.state;
    try {
      await getExternalWorkflowHandle(followUpBatchWorkflowId({ batchId, part })).signal(partOrderSignal, order);
      this.batch.noteAlive(part, Date.now());
    } catch {
      await this.#lookUp(part, input);
    }
    this.#underWay -= 1;
    this.#woken = true;
  }

  /** Starts a part again that no longer runs although not all its items have ended. It asks what they did. */
  async #lookUp(part: number, input?: PartItems): Promise<void> {
    const { batch } = this;
    if (this.#lookedUp.has(part) || batch.state.parts[part]?.hasEnded) return;
    this.#lookedUp.add(part);
    this.#underWay += 1;
    const workflowId = followUpBatchWorkflowId({ batchId: batch.state.batchId, part });
    const { isOpen, items } = await findPart(workflowId);
    this.#lookedUp.delete(part);
    // Another run of it is open, as after a reset of the part.
    if (isOpen) void this.#tell(part, batch.askForAll(part, Date.now()));
    else {
      const again = batch.startAgain(part, input ?? items, Date.now());
      if (again) await this.#startPart(again);
    }
    this.#underWay -= 1;
    this.#woken = true;
  }

  /** A part of an earlier batch with this id starts nothing more once it gets an order for other items. */
  async #disown(part: number): Promise<void> {
    const { batchId } = this.batch.state;
    const order = { number: Date.now(), hash: '', share: 0 };
    const handle = getExternalWorkflowHandle(followUpBatchWorkflowId({ batchId, part }));
    await handle.signal(partOrderSignal, order).catch(() => undefined);
  }

  #watch(nowMs: number): void {
    for (const [part, { hasEnded, aliveAtMs, order }] of this.batch.state.parts.entries()) {
      if (hasEnded || this.#lookedUp.has(part)) continue;
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
