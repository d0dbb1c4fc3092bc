import { TypedSearchAttributes, WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  CancellationScope,
  ChildWorkflowFailure,
  condition,
  executeChild,
  getExternalWorkflowHandle,
  ParentClosePolicy,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  WorkflowIdReusePolicy,
  workflowInfo,
} from '@temporalio/workflow';
import type { ItemFinder } from '../activities/find-items.js';
import { describePart } from '../batch/details.js';
import { hashOfItem } from '../batch/pack.js';
import { type ItemStart, Part } from '../batch/part.js';
import {
  batchMessageSchemas,
  ITEM_HASH_MEMO,
  type PartInput,
  partOrderSignal,
  partReportSignal,
} from '../contract/batch-protocol.js';
import type { ItemOutcome } from '../contract/batch-result.js';
import {
  type BatchCounts,
  batchItemsQuery,
  followUpBatchWorkflowId,
  followUpResultSchema,
  parseInput,
  SearchAttribute,
  WorkflowType,
} from '../contract/index.js';
import { outcomeOfFailure } from '../contract/outcome-of-failure.js';
import { Alarm } from './alarm.js';
import { FIND_OPTIONS, pageRange } from './batch-options.js';
import { invalidInput } from './failures.js';

/**
 * Some of the items of a batch, as many as one workflow can hold. Runs their follow-ups as its batch orders, and reports
 * how they ended. It refuses a cancel, because its batch decides. It never continues as new.
 *
 * @param input given only by a batch
 */
export async function followUpBatchPart(input: PartInput | null): Promise<BatchCounts> {
  const { parent, workflowId } = workflowInfo();
  const isOfBatch = input && parent?.workflowId === followUpBatchWorkflowId({ batchId: input.batchId });
  if (!isOfBatch || workflowId !== followUpBatchWorkflowId(input)) {
    throw invalidInput([{ field: '', message: 'only a batch may start a part: start followUpBatch' }]);
  }
  const runner = new PartRunner(input);
  CancellationScope.current().cancelRequested.catch(() => runner.refuseCancel());
  return CancellationScope.nonCancellable(() => runner.run());
}

/**
 * Priority of the tasks of a batch's follow-ups, of 1 (first) to 5: after those of follow-ups that somebody started, which
 * have Temporal's default, 3. Budgets need none: they have a task queue of their own.
 */
const BATCH_PRIORITY = 4;

/** Between two reports of one of the first parts. Later ones report less often, so that 100 parts do not flood a batch. */
const REPORT_EVERY_MS = 1_000;
const PARTS_AT_FULL_PACE = 10;

/**
 * How often a part asks Temporal about its open follow-ups. Temporal reports their ends, but not to a part that was
 * started again, or that was closed at that time and is reset later.
 */
const FIRST_LOOK_MS = 2_000;
const LAST_LOOK_MS = 5 * 60_000;
/** The same while Temporal reports the ends of all of them, as far as the part knows. */
const RARE_LOOK_MS = 60 * 60_000;

const GONE: Readonly<ItemOutcome> = {
  error: { type: 'Terminated', message: 'Temporal no longer keeps the follow-up', delivered: 'unknown' },
};

const { findItems } = proxyActivities<ItemFinder>(FIND_OPTIONS);

/** Positions of items that Temporal was asked about, and that have no outcome. */
interface Found {
  open: number[];
  gone: number[];
}

/** Connects the rules of a part to Temporal: children, signals and one timer. */
class PartRunner {
  readonly #part: Part;
  /** Whether something has happened since the last step. */
  #woken = true;
  /** Starts, signals, cancels and look-ups under way. */
  #underWay = 0;
  #isReporting = false;
  #reportedAtMs = -Infinity;
  #hasNews = true;
  /** Whether its batch no longer exists. */
  #isOrphan = false;
  #isAskedToCancel = false;
  /** Items about which Temporal is to be asked, with the outcome that counts if it knows nothing. */
  readonly #doubts = new Map<number, ItemOutcome>();
  /** Open items whose end Temporal does not report to this run. */
  readonly #unheard = new Set<number>();
  #isLooking = false;
  #lookEveryMs = RARE_LOOK_MS;
  #lookAtMs = Infinity;
  readonly #alarm = new Alarm('next report or look', () => this.#wake());

  constructor(private readonly input: PartInput) {
    this.#part = new Part(input);
    const schemas = batchMessageSchemas();
    setHandler(partOrderSignal, (message) => {
      const order = parseInput(schemas.partOrder, message);
      if (!order.ok) return;
      this.#isOrphan = false;
      // Another batch has taken the id of this part's batch. It is answered, and nothing more is started.
      if (!this.#part.obey(order.value)) this.#stop('Its batch ended before it was started');
      this.#note();
    });
    setHandler(batchItemsQuery, (range) => {
      const { first, items } = input;
      const { offset, limit } = pageRange(range, first);
      const count = Math.max(0, Math.min(limit, first + items.length - offset));
      const found = Array.from({ length: count }, (_, place) => this.#part.itemAt(offset - first + place));
      return { total: first + items.length, offset, items: found };
    });
  }

  /** A part ends when its batch says so, with an outcome for each item. After a cancel it continues, and says why. */
  refuseCancel(): void {
    this.#isAskedToCancel = true;
    this.#wake();
  }

  /** Runs until every item has ended and the batch knows it. */
  async run(): Promise<BatchCounts> {
    const part = this.#part;
    if (this.input.again) await this.#adopt(part.positions('waiting'));
    for (;;) {
      this.#woken = false;
      this.#step();
      if (part.hasEnded && !this.#hasNews && this.#underWay === 0) return part.counts();
      await condition(() => this.#woken);
    }
  }

  #step(): void {
    const part = this.#part;
    const nowMs = Date.now();
    if (part.order.cancel && !part.hasStopped) {
      this.#stop('The batch was cancelled before it was started');
      for (const position of part.positions('open')) void this.#cancelFollowUp(position);
    }
    for (const start of part.start()) {
      this.#note();
      void this.#during(() => this.#runFollowUp(start));
    }
    if (this.#doubts.size > 0 && !this.#isLooking) void this.#during(() => this.#settleDoubts());
    this.#lookAtOpen(nowMs);
    this.#report(nowMs);
    const { batchId } = this.input;
    const details = describePart(part, this.input, nowMs);
    const refusal = `**Was asked to cancel, but continues**: its batch decides. To cancel the whole batch: \`follow-up batch cancel ${batchId}\``;
    setCurrentDetails(this.#isAskedToCancel ? `${refusal}\n\n${details}` : details);
  }

  async #runFollowUp({ position, workflowId, input }: ItemStart): Promise<void> {
    const { projectId, jobId } = input;
    const { batchId, first } = this.input;
    try {
      const result: unknown = await executeChild(WorkflowType.followUp, {
        workflowId,
        args: [input],
        workflowIdReusePolicy: WorkflowIdReusePolicy.REJECT_DUPLICATE,
        // A follow-up survives a part that is terminated, and the part that is started again asks about it.
        parentClosePolicy: ParentClosePolicy.ABANDON,
        priority: { priorityKey: BATCH_PRIORITY },
        staticSummary: `Follow-up to ${jobId} (${projectId}), item ${first + position + 1} of batch ${batchId}`,
        memo: { [ITEM_HASH_MEMO]: hashOfItem(input) },
        typedSearchAttributes: new TypedSearchAttributes([
          { key: SearchAttribute.projectId, value: projectId },
          { key: SearchAttribute.jobId, value: jobId },
          { key: SearchAttribute.batchId, value: batchId },
        ]),
      });
      const parsed = parseInput(followUpResultSchema, result);
      if (!parsed.ok) return this.#end(position, outcomeOfFailure(new Error('It ended with an unknown result')));
      this.#end(position, { status: parsed.value.status, prLink: parsed.value.prLink });
    } catch (error) {
      if (error instanceof WorkflowExecutionAlreadyStartedError) {
        // It was started before, as before a reset.
        this.#doubt(position, notStarted(`${workflowId} was used before, and is gone`, 'unknown'));
      } else if (error instanceof ChildWorkflowFailure) {
        const outcome = outcomeOfFailure(error.cause);
        const { type } = outcome.error ?? {};
        // A reset terminates a run and starts another one. And Temporal may know more of a run that was cut off.
        if (type === 'Terminated' || type === 'Other') this.#doubt(position, outcome);
        else this.#end(position, outcome);
      } else {
        const message = `It could not be started: ${error instanceof Error ? error.message : String(error)}`;
        this.#end(position, notStarted(message, 'no'));
      }
    }
  }

  #end(position: number, outcome: ItemOutcome): void {
    this.#unheard.delete(position);
    this.#part.end(position, outcome);
    this.#note();
  }

  #doubt(position: number, outcome: ItemOutcome): void {
    this.#doubts.set(position, outcome);
    this.#wake();
  }

  async #settleDoubts(): Promise<void> {
    this.#isLooking = true;
    const doubts = new Map(this.#doubts);
    this.#doubts.clear();
    const { gone } = await this.#adopt([...doubts.keys()]);
    for (const position of gone) this.#end(position, doubts.get(position) ?? GONE);
    this.#isLooking = false;
  }

  /** Asks Temporal about items that may have been started before, and watches those that are open. */
  async #adopt(positions: readonly number[], unlessFirstRun = false): Promise<Found> {
    const found = await this.#find(positions, unlessFirstRun);
    for (const position of found.open) this.#watchUnheard(position);
    return found;
  }

  /** Asks Temporal about items, and ends those that have ended. */
  async #find(positions: readonly number[], unlessFirstRun = false): Promise<Found> {
    const found: Found = { open: [], gone: [] };
    const items = positions.map((position) => ({
      workflowId: this.#part.workflowIdOf(position),
      hash: hashOfItem(this.#part.inputOf(position)),
    }));
    const answers = items.length > 0 ? await findItems({ batchId: this.input.batchId, items, unlessFirstRun }) : [];
    for (const [place, position] of positions.entries()) {
      const { outcome, isOpen } = answers[place] ?? {};
      if (outcome) this.#end(position, outcome);
      else found[isOpen ? 'open' : 'gone'].push(position);
    }
    return found;
  }

  #watchUnheard(position: number): void {
    if (this.#unheard.has(position)) return;
    this.#unheard.add(position);
    this.#part.noteOpen(position);
    this.#lookEveryMs = FIRST_LOOK_MS;
    this.#lookAtMs = Date.now() + FIRST_LOOK_MS;
    if (this.#part.order.cancel) void this.#cancelFollowUp(position);
    this.#note();
  }

  /** Not by the handle of the child: after a reset of either workflow, such a request does not arrive. */
  async #cancelFollowUp(position: number): Promise<void> {
    const handle = getExternalWorkflowHandle(this.#part.workflowIdOf(position));
    await this.#during(() => handle.cancel().catch(() => undefined));
  }

  #lookAtOpen(nowMs: number): void {
    const open = this.#part.positions('open');
    if (open.length === 0) return;
    if (nowMs >= this.#lookAtMs) {
      this.#lookEveryMs = this.#unheard.size > 0 ? Math.min(2 * this.#lookEveryMs, LAST_LOOK_MS) : RARE_LOOK_MS;
      this.#lookAtMs = Infinity;
      void this.#during(async () => {
        const { gone } = await this.#find(open);
        for (const position of gone) this.#end(position, GONE);
      });
    }
    if (this.#lookAtMs === Infinity) this.#lookAtMs = nowMs + this.#lookEveryMs;
    this.#alarm.set(this.#lookAtMs);
  }

  /** Starts nothing more. What waits is withdrawn, unless Temporal knows that it was started before a reset. */
  #stop(message: string): void {
    if (this.#part.hasStopped) return;
    this.#part.stop();
    void this.#during(async () => {
      await this.#adopt(this.#part.positions('waiting'), true);
      this.#part.withdraw(message);
      this.#note();
    });
  }

  /** Reports one at a time, and not too often. The last report goes out at once. */
  #report(nowMs: number): void {
    const part = this.#part;
    if (this.#isOrphan) this.#hasNews = false;
    if (!this.#hasNews || this.#isReporting) return;
    const everyMs = REPORT_EVERY_MS * (1 + Math.floor(this.input.part / PARTS_AT_FULL_PACE));
    if (nowMs < this.#reportedAtMs + everyMs && !part.hasEnded) return this.#alarm.set(this.#reportedAtMs + everyMs);
    this.#hasNews = false;
    this.#isReporting = true;
    this.#reportedAtMs = nowMs;
    const report = part.report(nowMs);
    void this.#during(async () => {
      try {
        const batch = getExternalWorkflowHandle(followUpBatchWorkflowId({ batchId: this.input.batchId }));
        await batch.signal(partReportSignal, report);
        part.noteReported(report);
      } catch {
        // The batch was terminated. Nobody could see or stop what would be started from now on.
        this.#isOrphan = true;
        this.#stop('The batch ended before it was started');
      }
      this.#isReporting = false;
    });
  }

  #note(): void {
    this.#hasNews = true;
    this.#wake();
  }

  #wake(): void {
    this.#woken = true;
  }

  async #during(work: () => Promise<void>): Promise<void> {
    this.#underWay += 1;
    try {
      await work();
    } finally {
      this.#underWay -= 1;
      this.#wake();
    }
  }
}

function notStarted(message: string, delivered: 'no' | 'unknown'): ItemOutcome {
  return { error: { type: 'NotStarted', message, delivered } };
}
