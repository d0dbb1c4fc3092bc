import { TypedSearchAttributes, WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  CancellationScope,
  ChildWorkflowCancellationType,
  type ChildWorkflowHandle,
  condition,
  getExternalWorkflowHandle,
  ParentClosePolicy,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  startChild,
  type Workflow,
  WorkflowIdReusePolicy,
  workflowInfo,
} from '@temporalio/workflow';
import type { LookUps } from '../activities/batch-look-ups.js';
import type { PartInput } from '../batch/batch.js';
import { describePart } from '../batch/details.js';
import type { ItemOutcome } from '../batch/outcome.js';
import { type ItemStart, Part, type PartState } from '../batch/part.js';
import { followUpEndedSignal } from '../contract/batch-result.js';
import { defined } from '../contract/defined.js';
import {
  type BatchCounts,
  batchItemsQuery,
  followUpBatchWorkflowId,
  followUpResultSchema,
  parseInput,
  SearchAttribute,
  WorkflowType,
} from '../contract/index.js';
import { wakeSignal } from '../contract/protocol.js';
import { hash64 } from '../contract/text.js';
import { Alarm } from './alarm.js';
import {
  batchMessageSchemas,
  LOOK_UP_OPTIONS,
  pageRange,
  partOrderSignal,
  partReportSignal,
} from './batch-messages.js';
import { invalidInput, outcomeOfFailure } from './failures.js';
import { continueAsNew, isContinued, isNextRunDue } from './this-run.js';

/**
 * Some of the items of a batch, as many as one workflow can hold. Starts their follow-ups as its batch orders, and
 * reports how they ended. It refuses a cancel, because its batch decides.
 *
 * @param input given only by a batch; `null` if the run is continued
 * @param carried state of the previous run; only continue-as-new may give it
 */
export async function followUpBatchPart(input: PartInput | null, carried?: PartState): Promise<BatchCounts> {
  const part = carried && isContinued() ? new Part(carried) : newPart(input);
  const runner = new PartRunner(part);
  CancellationScope.current().cancelRequested.catch(() => runner.refuseCancel());
  await CancellationScope.nonCancellable(() => runner.run());
  return part.counts();
}

function newPart(input: PartInput | null): Part {
  const { parent, workflowId } = workflowInfo();
  if (
    !input ||
    parent?.workflowId !== followUpBatchWorkflowId({ batchId: input.batchId }) ||
    workflowId !== followUpBatchWorkflowId(input)
  ) {
    throw invalidInput([{ field: '', message: 'only a batch may start a part: start followUpBatch' }]);
  }
  return Part.create(input, Date.now() + input.firstStartAfterMs);
}

/**
 * Priority of the tasks of a batch's follow-ups, of 1 (first) to 5: after those of follow-ups that somebody started, which
 * have Temporal's default, 3. Budgets need none: they have a task queue of their own.
 */
const BATCH_PRIORITY = 4;

/** How often this run looks up a follow-up whose end Temporal does not report to it. */
const WATCH_EVERY_MS = 10 * 60_000;

const { lookUpItems } = proxyActivities<LookUps>(LOOK_UP_OPTIONS);

interface Doubt {
  outcome: ItemOutcome;
  promptHash?: string;
}

type Found = Awaited<ReturnType<typeof lookUpItems>>[number];

/** Connects the rules of a part to Temporal: children, signals and one timer. */
export class PartRunner {
  /** Whether something has happened since the last step. */
  #woken = true;
  /** Starts, signals, cancels and look-ups under way. */
  #underWay = 0;
  #isReporting = false;
  #reportedAtMs = -Infinity;
  #hasNews = true;
  /** Whether the batch no longer exists. */
  #isOrphan = false;
  #isAskedToCancel = false;
  /** Items that have ended without this part knowing how. */
  readonly #doubts = new Map<number, Doubt>();
  #isLookingUp = false;
  /** Open items whose end Temporal reports to this run. */
  readonly #watched = new Set<number>();
  readonly #alarm = new Alarm('next start, report or look', () => {
    this.#woken = true;
  });

  constructor(readonly part: Part) {
    const schemas = batchMessageSchemas();
    setHandler(followUpEndedSignal, (message) => {
      const parsed = parseInput(schemas.followUpEnd, message);
      if (!parsed.ok) return;
      const { workflowId, ...outcome } = parsed.value;
      const position = part.positionOf(workflowId);
      if (position !== undefined) this.#end(position, outcome);
    });
    setHandler(partOrderSignal, (message) => {
      const parsed = parseInput(schemas.partOrder, message);
      if (!parsed.ok || parsed.value.number <= part.state.order.number) return;
      part.state.order = parsed.value;
      if (parsed.value.tellAll) part.tellAll();
      this.#note();
    });
    setHandler(batchItemsQuery, (range) => {
      const { first, items } = part.state;
      const { offset, limit } = pageRange(range, first);
      const count = Math.max(0, Math.min(limit, first + items.length - offset));
      const found = Array.from({ length: count }, (_, place) => part.itemAt(offset - first + place));
      return { total: first + items.length, offset, items: found };
    });
  }

  /** A part ends when its batch says so, with an outcome for each item. After a cancel it continues, and says why. */
  refuseCancel(): void {
    this.#isAskedToCancel = true;
    this.#woken = true;
  }

  #cancelRefusal(): string {
    const { batchId } = this.part.state;
    return `**Was asked to cancel, but continues**: its batch decides. To cancel the whole batch: \`follow-up batch cancel ${batchId}\``;
  }

  /** Runs until every item has ended and the batch knows it. */
  async run(): Promise<void> {
    for (;;) {
      this.#woken = false;
      this.#step();
      if (this.part.hasEnded && !this.#hasNews && this.#underWay === 0) return;
      if (isNextRunDue() && this.#underWay === 0) {
        await continueAsNew<typeof followUpBatchPart>(null, this.part.state);
      }
      await condition(() => this.#woken);
    }
  }

  #step(): void {
    const { part } = this;
    const nowMs = Date.now();
    if (part.state.order.cancel && !part.state.cancelled) this.#cancel();
    for (const start of part.start(nowMs)) {
      this.#note();
      void this.#during(() => this.#startFollowUp(start));
    }
    const nextStartAtMs = part.nextStartAtMs();
    if (nextStartAtMs !== undefined) this.#alarm.set(nextStartAtMs);
    if (this.#doubts.size > 0 && !this.#isLookingUp) {
      this.#isLookingUp = true;
      void this.#during(() => this.#lookUp().finally(() => (this.#isLookingUp = false)));
    }
    this.#report(nowMs);
    this.#watch(nowMs);
    const details = describePart(part, nowMs);
    setCurrentDetails(this.#isAskedToCancel ? `${this.#cancelRefusal()}\n\n${details}` : details);
  }

  #note(): void {
    this.#woken = true;
    this.#hasNews = true;
  }

  #end(position: number, outcome: ItemOutcome): void {
    const isOutcome = outcome.status !== undefined || outcome.error !== undefined;
    const unclear = { error: { type: 'Other', message: 'It ended without an outcome', delivered: 'unknown' } } as const;
    this.part.end(position, isOutcome ? outcome : unclear);
    this.#note();
  }

  async #startFollowUp({ position, workflowId, input }: ItemStart): Promise<void> {
    const { projectId, jobId } = input;
    const { batchId, first } = this.part.state;
    let child: ChildWorkflowHandle<Workflow>;
    try {
      child = await startChild(WorkflowType.followUp, {
        workflowId,
        args: [input],
        workflowIdReusePolicy: WorkflowIdReusePolicy.REJECT_DUPLICATE,
        // The batch cancels follow-ups: one that is ended from outside tells the budget nothing.
        parentClosePolicy: ParentClosePolicy.ABANDON,
        cancellationType: ChildWorkflowCancellationType.ABANDON,
        priority: { priorityKey: BATCH_PRIORITY },
        staticSummary: `Follow-up to ${jobId} (${projectId}), item ${first + position + 1} of batch ${batchId}`,
        typedSearchAttributes: new TypedSearchAttributes([
          { key: SearchAttribute.projectId, value: projectId },
          { key: SearchAttribute.jobId, value: jobId },
          { key: SearchAttribute.batchId, value: batchId },
        ]),
      });
    } catch (error) {
      return this.#adopt(position, error, hash64(input.prompt));
    }
    this.#watched.add(position);
    void this.#hearEnd(position, child);
    if (this.part.state.cancelled) await this.#cancelFollowUp(position);
  }

  /**
   * Hears the end of a follow-up from Temporal, which matters if the follow-up had no chance to report it, because it
   * was terminated or timed out.
   */
  async #hearEnd(position: number, child: ChildWorkflowHandle<Workflow>): Promise<void> {
    try {
      const result: unknown = await child.result();
      const parsed = parseInput(followUpResultSchema, result);
      this.#end(position, parsed.ok ? { status: parsed.value.status, prLink: parsed.value.prLink } : {});
    } catch (error) {
      const outcome = outcomeOfFailure(error);
      // It had no chance to report what it knew.
      if (outcome.error?.type === 'Terminated' || outcome.error?.type === 'Other') this.#doubt(position, { outcome });
      else this.#end(position, outcome);
    }
  }

  /**
   * The follow-up could not be started. If it was started before, as before a reset, its end is awaited or looked up.
   */
  async #adopt(position: number, error: unknown, promptHash: string): Promise<void> {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) {
      const message = `It could not be started: ${error instanceof Error ? error.message : String(error)}`;
      return this.#end(position, { error: { type: 'NotStarted', message, delivered: 'no' } });
    }
    if (await this.#isThere(position)) return;
    const message = `${this.part.workflowIdOf(position)} was used before, and has ended`;
    this.#doubt(position, { promptHash, outcome: { error: { type: 'NotStarted', message, delivered: 'unknown' } } });
  }

  /** The item has ended, and how is to be looked up. `doubt.outcome` counts if nothing is found. */
  #doubt(position: number, doubt: Doubt): void {
    this.#doubts.set(position, doubt);
    this.#woken = true;
  }

  async #lookUp(): Promise<void> {
    const doubts = [...this.#doubts];
    const items = doubts.map(([position, { promptHash }]) => ({
      workflowId: this.part.workflowIdOf(position),
      ...defined({ promptHash }),
    }));
    let found: Found[] = [];
    try {
      found = await lookUpItems({ batchId: this.part.state.batchId, items });
    } catch {
      // After enough tries, what is not known stays unknown.
    }
    for (const [place, [position, { outcome }]] of doubts.entries()) {
      this.#doubts.delete(position);
      const { isOpen, outcome: known } = found[place] ?? {};
      // Another run of it, as after a reset, reports its end by itself.
      if (isOpen) this.#watched.delete(position);
      if (isOpen) this.part.noteAlive(position, Date.now());
      else this.#end(position, known ?? outcome);
    }
  }

  async #isThere(position: number): Promise<boolean> {
    try {
      await getExternalWorkflowHandle(this.part.workflowIdOf(position)).signal(wakeSignal);
      this.part.noteAlive(position, Date.now());
      return true;
    } catch {
      return false;
    }
  }

  #cancel(): void {
    this.part.withdraw('The batch was cancelled before it was started');
    this.#note();
    for (const position of this.part.openPositions()) void this.#during(() => this.#cancelFollowUp(position));
  }

  /** A follow-up that no longer exists has ended: it reports that, or {@link #watch} finds out. */
  async #cancelFollowUp(position: number): Promise<void> {
    try {
      await getExternalWorkflowHandle(this.part.workflowIdOf(position)).cancel();
    } catch {
      if (!this.#watched.has(position)) this.#endUnheard(position);
    }
  }

  /** Reports at most every `reportEveryMs`, one report at a time. The last report goes out at once. */
  #report(nowMs: number): void {
    const { part } = this;
    if (this.#isOrphan) this.#hasNews = false;
    if (!this.#hasNews || this.#isReporting) return;
    const dueAtMs = this.#reportedAtMs + part.state.order.reportEveryMs;
    if (nowMs < dueAtMs && !part.hasEnded) return this.#alarm.set(dueAtMs);
    this.#hasNews = false;
    this.#isReporting = true;
    this.#reportedAtMs = nowMs;
    const report = part.report(nowMs);
    void this.#during(async () => {
      try {
        const batch = getExternalWorkflowHandle(followUpBatchWorkflowId({ batchId: part.state.batchId }));
        await batch.signal(partReportSignal, report);
        part.noteReported(report);
      } catch {
        // Somebody terminated the batch. Nobody could see or stop what would be started from now on.
        this.#isOrphan = true;
        part.withdraw('The batch has ended before it was started');
      }
      this.#isReporting = false;
    });
  }

  #watch(nowMs: number): void {
    for (const position of this.part.openPositions()) {
      if (this.#watched.has(position) || this.#doubts.has(position)) continue;
      const aliveAtMs = this.part.state.items[position]?.aliveAtMs ?? nowMs;
      if (nowMs < aliveAtMs + WATCH_EVERY_MS) {
        this.#alarm.set(aliveAtMs + WATCH_EVERY_MS);
        continue;
      }
      this.part.noteAlive(position, nowMs);
      void this.#during(async () => {
        if (!(await this.#isThere(position))) this.#endUnheard(position);
      });
    }
  }

  /** A follow-up reports before it ends. If nothing was heard, its end has to be looked up. */
  #endUnheard(position: number): void {
    const message = 'The follow-up ended without telling its batch: it was terminated, or timed out';
    this.#doubt(position, { outcome: { error: { type: 'Terminated', message, delivered: 'unknown' } } });
  }

  async #during(work: () => Promise<void>): Promise<void> {
    this.#underWay += 1;
    try {
      await work();
    } finally {
      this.#underWay -= 1;
      this.#woken = true;
    }
  }
}
