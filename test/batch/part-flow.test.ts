import { describe, expect, test } from 'vitest';
import { PartFlow, type PartPort } from '../../src/batch/part-flow.js';
import type { ItemOutcome } from '../../src/contract/index.js';
import type { FoundItem, PartInput, PartOrder, PartReport } from '../../src/protocol/index.js';

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const ORDER: PartOrder = { number: 1, since: 1, share: 2 };
/** The run of the batch that starts the part. */
const FIRST_RUN = 'run-1';
const SECOND_RUN = 'run-2';
const items = [1, 2].map((number) => ({ projectId: 'p', jobId: `job-${number}`, prompt: 'go on' }));
const FIRST = 'follow-up/p/job-1/b:0';
const SECOND = 'follow-up/p/job-2/b:1';

const NOT_KEPT = { type: 'Terminated', message: 'Temporal no longer keeps the follow-up', delivered: 'unknown' };
const WITHDRAWN = { type: 'Cancelled', message: 'The batch was cancelled before it was started', delivered: 'no' };

/** A part of two items, on a Temporal of which the test decides what it knows. */
class TestPart {
  /** What Temporal knows of follow-ups, by workflow id. */
  readonly known = new Map<string, FoundItem>();
  readonly started: string[] = [];
  readonly cancelled: string[] = [];
  readonly flow: PartFlow;
  /** The result of the flow. */
  readonly ended: ReturnType<PartFlow['run']>;
  nowMs = 0;
  readonly reports: PartReport[] = [];
  /** The run of its batch that runs, if there is one. */
  batchRunId: string | undefined = FIRST_RUN;
  wasReset = false;
  /** What the batch does when it accepts a report. */
  onReport = (): void => undefined;
  #wakeAtMs = Infinity;

  constructor(change: Partial<PartInput> = {}, known: Record<string, FoundItem> = {}) {
    for (const [workflowId, found] of Object.entries(known)) this.known.set(workflowId, found);
    const port: PartPort = {
      nowMs: () => this.nowMs,
      patched: () => true,
      condition: async (isOver) => {
        while (!isOver()) await new Promise(setImmediate);
      },
      wakeAt: (atMs) => (this.#wakeAtMs = Math.min(this.#wakeAtMs, atMs)),
      runFollowUp: ({ workflowId }) => {
        this.started.push(workflowId);
        return new Promise<ItemOutcome>(() => undefined);
      },
      cancelFollowUp: async (workflowId) => this.cancelled.push(workflowId),
      findItems: async (asked) => asked.items.map(({ workflowId }) => this.known.get(workflowId) ?? {}),
      reportToBatch: async (report, batchRunId = this.batchRunId) => {
        if (this.batchRunId === undefined || batchRunId !== this.batchRunId) return false;
        this.reports.push(report);
        this.onReport();
        return true;
      },
      wasReset: () => this.wasReset,
      show: () => undefined,
    };
    const input = { batchId: 'b', part: 0, hash: 'h', first: 0, template: {}, items, order: ORDER, ...change };
    this.flow = new PartFlow(input, FIRST_RUN, port);
    this.ended = this.flow.run();
  }

  /** Lets the flow do all that it does without a timer. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  }

  /** Lets time pass until the flow asked to be woken, or until a day has passed. */
  async fireTimer(): Promise<void> {
    this.nowMs = Math.min(this.#wakeAtMs, DAY);
    this.#wakeAtMs = Infinity;
    this.flow.wake();
    await this.settle();
  }

  /** Lets time pass until this is so, at most for a day. */
  async fireTimersUntil(isSo: () => boolean): Promise<void> {
    while (!isSo() && this.nowMs < DAY) await this.fireTimer();
  }

  async order(order: Partial<PartOrder>): Promise<void> {
    this.flow.receive({ ...ORDER, number: 2, batchRunId: this.batchRunId ?? FIRST_RUN, ...order });
    await this.settle();
  }

  async orderCancel(): Promise<void> {
    await this.order({ share: 0, cancel: true });
  }

  /** The outcome of each item, or nothing yet. */
  outcomes() {
    return this.flow.page({ offset: 0, limit: 10 }).items.map(({ status, error }) => status ?? error);
  }
}

async function startPart(...args: ConstructorParameters<typeof TestPart>): Promise<TestPart> {
  const part = new TestPart(...args);
  await part.settle();
  return part;
}

describe('a part', () => {
  test('starts its items', async () => {
    const part = await startPart();
    expect(part.started).toEqual([FIRST, SECOND]);
    expect(part.outcomes()).toEqual([undefined, undefined]);
  });

  test('ends when all its items have an outcome, although it never receives their ends', async () => {
    const part = await startPart();
    part.known.set(FIRST, { outcome: { status: 'completed', prLink: null } });
    part.known.set(SECOND, { outcome: { status: 'completed', prLink: null } });
    await part.fireTimersUntil(() => !part.outcomes().includes(undefined));
    expect(part.outcomes()).toEqual(['completed', 'completed']);
    await expect(part.ended).resolves.toMatchObject({ completed: 2 });
  });
});

describe('a part whose batch no longer runs', () => {
  test('starts nothing more, and ends when its open follow-ups have ended', async () => {
    const part = await startPart({ order: { ...ORDER, share: 1 } }, { [FIRST]: { isOpen: true } });
    expect(part.started).toEqual([FIRST]);
    part.batchRunId = undefined;
    await part.fireTimersUntil(() => part.outcomes()[1] !== undefined);
    expect(part.outcomes()).toEqual([undefined, { ...WITHDRAWN, message: 'The batch ended before it was started' }]);
    part.known.set(FIRST, { outcome: { status: 'completed', prLink: null } });
    await part.fireTimersUntil(() => part.outcomes()[0] !== undefined);
    await expect(part.ended).resolves.toMatchObject({ completed: 1, errors: 1 });
    expect(part.started).toEqual([FIRST]);
  });

  test('reports only what is new to another batch with the same id, which disowns it each time', async () => {
    const part = await startPart({ order: { ...ORDER, share: 1 } }, { [FIRST]: { isOpen: true } });
    part.batchRunId = SECOND_RUN;
    part.onReport = () => void part.order({ number: part.nowMs, since: 0, share: 0, orphaned: true });
    await part.fireTimersUntil(() => part.outcomes()[1] !== undefined);
    expect(part.outcomes()).toEqual([undefined, { ...WITHDRAWN, message: 'Its batch ended before it was started' }]);
    await part.fireTimer();
    const { length } = part.reports;
    await part.fireTimersUntil(() => false);
    expect(part.nowMs).toBeGreaterThanOrEqual(DAY);
    expect(part.reports).toHaveLength(length);
  });
});

describe('a part whose batch was reset, continued as new or started again', () => {
  /** The part has the first item open, and the run of its batch has closed before that item ends. */
  async function startWithNextRun(): Promise<TestPart> {
    const part = await startPart({ order: { ...ORDER, share: 1 } });
    expect(part.started).toEqual([FIRST]);
    part.batchRunId = SECOND_RUN;
    part.known.set(FIRST, { outcome: { status: 'completed', prLink: null } });
    await part.fireTimersUntil(() => part.reports.at(-1)?.counts.completed === 1);
    return part;
  }

  test('starts nothing more when the run that runs now has only accepted its report', async () => {
    const part = await startWithNextRun();
    await part.fireTimersUntil(() => false);
    expect(part.started).toEqual([FIRST]);
    expect(part.outcomes()).toEqual(['completed', undefined]);
  });

  test('asks that run for an order, and starts the next item when it has the order', async () => {
    const part = await startWithNextRun();
    expect(part.reports.at(-1)).toMatchObject({ needsOrder: true });
    await part.order({ share: 1 });
    expect(part.reports.at(-1)).not.toHaveProperty('needsOrder');
    expect(part.started).toEqual([FIRST, SECOND]);
  });

  test('starts nothing more if that run has other items, and disowns it', async () => {
    const part = await startWithNextRun();
    await part.order({ share: 0, orphaned: true });
    await part.fireTimersUntil(() => part.outcomes()[1] !== undefined);
    expect(part.started).toEqual([FIRST]);
    expect(part.outcomes()[1]).toMatchObject({ type: 'Cancelled', delivered: 'no' });
  });

  test('starts nothing on an order that came while a report to an earlier run was under way', async () => {
    const part = await startPart({ order: { ...ORDER, share: 1 } });
    part.known.set(FIRST, { outcome: { status: 'completed', prLink: null } });
    part.onReport = () => {
      if (part.batchRunId !== FIRST_RUN) return;
      part.batchRunId = 'run-3';
      part.flow.receive({ ...ORDER, number: 2, batchRunId: SECOND_RUN });
    };
    await part.fireTimersUntil(() => part.reports.at(-1)?.needsOrder === true);
    expect(part.started).toEqual([FIRST]);
  });

  test('stays with the run whose order it follows if another run sends an older order', async () => {
    const part = await startPart({ order: { ...ORDER, number: 5, share: 1 } });
    part.batchRunId = SECOND_RUN;
    await part.order({ number: 5, share: 0 });
    part.known.set(FIRST, { outcome: { status: 'completed', prLink: null } });
    await part.fireTimersUntil(() => part.reports.at(-1)?.counts.completed === 1);
    expect(part.reports.at(-1)).toMatchObject({ needsOrder: true });
    expect(part.started).toEqual([FIRST]);
  });

  test('asks again each hour for an order that does not come', async () => {
    const part = await startWithNextRun();
    const { length } = part.reports;
    const askedAtMs = part.nowMs;
    await part.fireTimersUntil(() => part.reports.length > length);
    expect(part.nowMs).toBe(askedAtMs + 60 * MINUTE);
    expect(part.reports.at(-1)).toMatchObject({ needsOrder: true });
  });

  test('starts nothing on an order of a run that has closed since', async () => {
    const part = await startWithNextRun();
    part.batchRunId = 'run-3';
    part.flow.receive({ ...ORDER, number: 2, batchRunId: SECOND_RUN });
    await part.fireTimersUntil(() => false);
    expect(part.started).toEqual([FIRST]);
  });
});

describe('a part that is cancelled', () => {
  test('withdraws what waits, and leaves what is open to its end', async () => {
    const part = await startPart({ order: { ...ORDER, share: 1 } });
    expect(part.started).toEqual([FIRST]);
    part.known.set(FIRST, { isOpen: true });
    await part.orderCancel();
    expect(part.outcomes()).toEqual([undefined, WITHDRAWN]);
  });

  test('cancels its open follow-ups', async () => {
    const part = await startPart();
    await part.orderCancel();
    expect(part.cancelled).toEqual([FIRST, SECOND]);
  });

  test('cancels a follow-up again that had not started when the first request came', async () => {
    const part = await startPart();
    await part.orderCancel();
    expect(part.cancelled).toEqual([FIRST, SECOND]);
    part.known.set(SECOND, { isOpen: true });
    await part.fireTimersUntil(() => part.cancelled.length > 2);
    expect(part.cancelled.slice(2)).toContain(SECOND);
  });

  test('cancels its open follow-ups again if a reset of its batch took the first cancel back', async () => {
    const part = await startPart();
    await part.orderCancel();
    await part.order({ number: 3 });
    expect(part.cancelled).toEqual([FIRST, SECOND]);
    await part.order({ number: 4, cancel: true });
    expect(part.cancelled).toEqual([FIRST, SECOND, FIRST, SECOND]);
  });

  test('gives up a follow-up only after Temporal has not known it for a minute', async () => {
    const part = await startPart();
    part.known.set(FIRST, { isOpen: true });
    await part.orderCancel();
    await part.fireTimersUntil(() => part.outcomes()[1] !== undefined);
    expect(part.outcomes()[1]).toEqual(NOT_KEPT);
    expect(part.nowMs).toBeGreaterThanOrEqual(MINUTE);
  });

  test('never gives up a follow-up that Temporal knows', async () => {
    const part = await startPart();
    part.known.set(FIRST, { isOpen: true });
    await part.orderCancel();
    await part.fireTimersUntil(() => part.outcomes()[0] !== undefined);
    expect(part.nowMs).toBeGreaterThanOrEqual(DAY);
    expect(part.outcomes()).toEqual([undefined, NOT_KEPT]);
  });
});

describe('a part that was reset and is cancelled', () => {
  async function startReset(): Promise<TestPart> {
    const part = await startPart({ order: { ...ORDER, share: 1 } }, { [FIRST]: { isOpen: true } });
    part.wasReset = true;
    await part.orderCancel();
    expect(part.cancelled).toEqual([FIRST]);
    return part;
  }

  test('withdraws nothing for a minute: Temporal may still start what the run before told it to start', async () => {
    const part = await startReset();
    while (part.nowMs < MINUTE) {
      expect(part.outcomes()).toEqual([undefined, undefined]);
      await part.fireTimer();
    }
    expect(part.outcomes()).toEqual([undefined, WITHDRAWN]);
  });

  test('cancels a follow-up that Temporal starts in that time', async () => {
    const part = await startReset();
    part.known.set(SECOND, { isOpen: true });
    await part.fireTimersUntil(() => part.cancelled.includes(SECOND));
    expect(part.nowMs).toBeLessThanOrEqual(2 * MINUTE);
    expect(part.outcomes()).toEqual([undefined, undefined]);
  });
});

describe('a restarted part', () => {
  test('starts nothing if Temporal has forgotten what it had begun', async () => {
    const part = await startPart({ again: 1 });
    await part.fireTimersUntil(() => part.nowMs >= MINUTE);
    expect(part.started).toEqual([]);
    expect(part.outcomes()).toEqual([NOT_KEPT, NOT_KEPT]);
  });

  test('adopts what runs, and starts what it had not begun', async () => {
    const part = await startPart({ again: 1 }, { [FIRST]: { isOpen: true } });
    await part.fireTimersUntil(() => part.nowMs >= MINUTE);
    expect(part.started).toEqual([SECOND]);
    expect(part.outcomes()).toEqual([undefined, undefined]);
  });

  test('waits for a follow-up that its earlier run was about to start', async () => {
    const part = await startPart({ again: 1 });
    part.known.set(FIRST, { isOpen: true });
    expect(part.started).toEqual([]);
    await part.fireTimersUntil(() => part.started.length > 0);
    expect(part.nowMs).toBeGreaterThanOrEqual(MINUTE);
    expect(part.started).toEqual([SECOND]);
    expect(part.outcomes()).toEqual([undefined, undefined]);
  });
});

describe('a restarted part that is cancelled', () => {
  const input = { again: 1, order: { ...ORDER, share: 1 } };

  test('cancels at once what it finds', async () => {
    const part = await startPart(input, { [FIRST]: { isOpen: true } });
    await part.orderCancel();
    expect(part.cancelled).toEqual([FIRST]);
    expect(part.outcomes()).toEqual([undefined, undefined]);
  });

  test('withdraws nothing for a minute: its earlier run may have started it', async () => {
    const part = await startPart(input, { [FIRST]: { isOpen: true } });
    await part.orderCancel();
    while (part.nowMs < MINUTE) {
      expect(part.outcomes()).toEqual([undefined, undefined]);
      await part.fireTimer();
    }
    expect(part.outcomes()).toEqual([undefined, WITHDRAWN]);
  });

  test('cancels a follow-up of its earlier run that its batch does not know', async () => {
    const part = await startPart(input, { [FIRST]: { isOpen: true } });
    await part.orderCancel();
    await part.fireTimersUntil(() => part.nowMs >= MINUTE / 3);
    part.known.set(SECOND, { isOpen: true });
    await part.fireTimersUntil(() => part.cancelled.includes(SECOND));
    expect(part.cancelled).toContain(SECOND);
    expect(part.outcomes()).toEqual([undefined, undefined]);
  });
});
