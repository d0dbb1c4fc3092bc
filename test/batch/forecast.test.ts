import { describe, expect, test } from 'vitest';
import { forecastEnd } from '../../src/batch/forecast.js';
import { Part } from '../../src/batch/part.js';
import { Budget, newState } from '../../src/budget/index.js';
import { outlookOf } from '../../src/client/batch-forecast.js';
import type { FollowUpSummary } from '../../src/client/summary.js';
import type { BatchItem } from '../../src/contract/index.js';
import { askOnce } from '../budget/support.js';
import type { AcquireRequest } from '../../src/contract/protocol.js';
import { createRandom } from '../../src/simulator/random.js';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const T0 = Date.UTC(2026, 0, 1);

interface Profile {
  /** The number of items of each project. */
  items: Record<string, number>;
  maxOpen: number;
  limit: number;
  windowMs: number;
  reserve?: number;
  /** Slots of each project that others used, and how long before the batch begins. */
  spent?: { count: number; agoMs: number };
  turnMs: { min: number; max: number };
}

/** One expectation: when it was made, after how many ends, and what it said. */
interface Expectation {
  atMs: number;
  ended: number;
  endMs: number | undefined;
}

/**
 * Runs a batch by the real rules of parts and budgets, in simulated time. A follow-up asks, waits until it is woken or
 * its wait is over, asks again, sends, and ends after a turn of random length. Some 30 times, the end of the batch is
 * forecast from what a client would see.
 */
function run(profile: Profile, seed: number): { expectations: Expectation[]; endMs: number } {
  const { maxOpen, limit, windowMs, reserve = 0, turnMs, spent } = profile;
  const random = createRandom(seed);
  const budgets = new Map<string, Budget>();
  const items: { projectId: string; jobId: string; prompt: string }[] = [];
  for (const [projectId, count] of Object.entries(profile.items)) {
    budgets.set(projectId, new Budget(newState(projectId, { limit, windowMs, reserve, marginMs: 2_000 })));
    for (let index = 0; index < count; index++) items.push({ projectId, jobId: `job-${index}`, prompt: 'x' });
  }
  const part = Part.create(
    {
      batchId: 'b',
      part: 0,
      first: 0,
      template: { lane: 'batch' },
      items,
      order: { number: 1, share: maxOpen, starts: 5, everyMs: 1_000, reportEveryMs: 1_000 },
    },
    T0,
  );
  const events: { atMs: number; act: (nowMs: number) => void }[] = [];
  const at = (atMs: number, act: (nowMs: number) => void) => events.push({ atMs, act });
  const running = new Map<string, FollowUpSummary>();
  const ended: FollowUpSummary[] = [];
  const asks = new Map<string, number>();
  /** One timer for each budget, as in its workflow. */
  const timers = new Map<string, number>();
  const expectations: Expectation[] = [];
  let endMs = T0;

  const follow = (
    projectId: string,
    { wake, lookAgainAtMs }: { wake: string[]; lookAgainAtMs?: number },
    nowMs: number,
  ) => {
    for (const workflowId of wake) {
      // A wake, a read of the job and an ask take time.
      at(nowMs + 150, (askAtMs) => ask(projectId, workflowId, askAtMs));
    }
    if (lookAgainAtMs === undefined || lookAgainAtMs >= (timers.get(projectId) ?? Infinity)) return;
    timers.set(projectId, lookAgainAtMs);
    at(lookAgainAtMs, (tickAtMs) => {
      if (timers.get(projectId) !== lookAgainAtMs) return;
      timers.delete(projectId);
      const budget = budgets.get(projectId);
      if (budget) follow(projectId, budget.tick(tickAtMs), tickAtMs);
    });
  };
  const ask = (projectId: string, workflowId: string, nowMs: number) => {
    const budget = budgets.get(projectId);
    const summary = running.get(workflowId);
    if (!budget || !summary || summary.state === 'polling') return;
    const number = (asks.get(workflowId) ?? 0) + 1;
    asks.set(workflowId, number);
    const request: AcquireRequest = {
      ...{
        workflowId,
        jobId: summary.jobId,
        sendNumber: 1,
        lane: 'batch',
        token: `${workflowId} ${number}`,
        hold: false,
      },
      ...{ attemptScheduledAtMs: nowMs, firstRunStartedAtMs: T0, messageTag: 'x', leaseMs: 60_000, drainMs: 120_000 },
    };
    const [answer, effects] = askOnce(budget, nowMs, request);
    follow(projectId, effects, nowMs);
    if (answer.kind === 'wait') {
      summary.state = 'waiting-for-budget';
      at(nowMs + answer.waitMs, (againAtMs) => {
        if (asks.get(workflowId) === number) ask(projectId, workflowId, againAtMs);
      });
      return;
    }
    if (answer.kind !== 'granted') throw new Error(`${workflowId}: ${answer.kind}`);
    summary.state = 'polling';
    const sentAtMs = nowMs + (answer.sendAfterMs ?? 0);
    at(sentAtMs + 300, (settledAtMs) => {
      const { token } = request;
      const word = { kind: 'settle', workflowId, sendNumber: 1, token, outcome: 'sent' } as const;
      follow(projectId, budget.hear(settledAtMs, [word]), settledAtMs);
    });
    at(sentAtMs + turnMs.min + random.next() * (turnMs.max - turnMs.min), (overAtMs) => {
      end(projectId, workflowId, overAtMs);
    });
  };
  const end = (projectId: string, workflowId: string, nowMs: number) => {
    const budget = budgets.get(projectId);
    const summary = running.get(workflowId);
    if (!budget || !summary) return;
    running.delete(workflowId);
    ended.unshift({ ...summary, status: 'completed', endedAt: new Date(nowMs).toISOString() });
    const word = { kind: 'finish', workflowId, jobId: summary.jobId, sendNumber: 1, outcome: 'sent' } as const;
    follow(projectId, budget.hear(nowMs, [word]), nowMs);
    const position = part.positionOf(workflowId);
    if (position !== undefined) part.end(position, { status: 'completed', prLink: null });
    endMs = nowMs;
    start(nowMs);
    if (ended.length % Math.ceil(items.length / 30) === 0) {
      expectations.push({ atMs: nowMs, ended: ended.length, endMs: expectNow(nowMs) });
    }
  };
  const start = (nowMs: number) => {
    for (const { workflowId, input } of part.start(nowMs)) {
      const { projectId, jobId } = input;
      const startedAt = new Date(nowMs).toISOString();
      running.set(workflowId, {
        workflowId,
        projectId,
        jobId,
        key: '',
        status: 'running',
        state: 'sending',
        startedAt,
      });
      at(nowMs + 200, (askAtMs) => ask(projectId, workflowId, askAtMs));
    }
    const nextStartAtMs = part.nextStartAtMs();
    if (nextStartAtMs !== undefined) at(Math.max(nextStartAtMs, nowMs + 1), start);
  };
  const expectNow = (nowMs: number): number | undefined => {
    const seen: BatchItem[] = items.map((_, index) => part.itemAt(index));
    const answers = new Map(
      [...budgets].map(([projectId, budget]) => [
        projectId,
        { status: budget.status(nowMs), slots: budget.slots(nowMs) },
      ]),
    );
    const known = { running: [...running.values()], ended: ended.slice(0, 100), answers };
    return forecastEnd(outlookOf({ items: seen, maxOpen }, known), nowMs);
  };

  for (const [projectId, budget] of budgets) {
    for (let index = 0; index < (spent?.count ?? 0); index++) {
      const atMs = T0 - (spent?.agoMs ?? 0);
      const workflowId = `other-${projectId}-${index}`;
      const request: AcquireRequest = {
        ...{ workflowId, jobId: workflowId, sendNumber: 1, lane: 'interactive', token: workflowId, hold: false },
        ...{
          attemptScheduledAtMs: atMs,
          firstRunStartedAtMs: atMs,
          messageTag: 'x',
          leaseMs: 60_000,
          drainMs: 120_000,
        },
      };
      askOnce(budget, atMs, request);
      const word = { workflowId, sendNumber: 1, token: workflowId, outcome: 'sent', jobId: workflowId } as const;
      budget.hear(atMs, [
        { kind: 'settle', ...word },
        { kind: 'finish', ...word },
      ]);
    }
  }
  start(T0);
  for (let steps = 0; steps < 100_000; steps++) {
    const first = events.reduce(
      (best, event, index) => (event.atMs < (events[best]?.atMs ?? Infinity) ? index : best),
      0,
    );
    const [event] = events.splice(first, 1);
    if (!event || ended.length === items.length) return { expectations, endMs };
    event.act(event.atMs);
  }
  throw new Error('the batch does not end');
}

/** How far off the expectations are, from the given number of ended items on. */
function errorsFrom(leastEnded: number, { expectations, endMs }: ReturnType<typeof run>) {
  return expectations
    .filter(({ ended, atMs }) => ended >= leastEnded && atMs < endMs)
    .map(({ ended, atMs, endMs: expectedMs }) => ({
      ended,
      leftMs: endMs - atMs,
      offMs: Math.abs((expectedMs ?? Infinity) - endMs),
    }));
}

const profiles: [what: string, profile: Profile][] = [
  [
    'there are plenty of slots, and the jobs are long',
    { items: { a: 60 }, maxOpen: 5, limit: 100, windowMs: 60 * MINUTE, turnMs: { min: 9 * MINUTE, max: 11 * MINUTE } },
  ],
  [
    'it has 30 items on a budget of 10 a window',
    { items: { a: 30 }, maxOpen: 50, limit: 10, windowMs: 10 * MINUTE, turnMs: { min: 30 * SECOND, max: 60 * SECOND } },
  ],
  [
    'others spent most of its budget before it began',
    {
      ...{ items: { a: 45 }, maxOpen: 20, limit: 20, windowMs: 60 * MINUTE, spent: { count: 15, agoMs: 20 * MINUTE } },
      turnMs: { min: 3 * MINUTE, max: 5 * MINUTE },
    },
  ],
  [
    'its budget has a reserve',
    {
      ...{ items: { a: 40 }, maxOpen: 50, limit: 10, reserve: 4, windowMs: 10 * MINUTE },
      turnMs: { min: 30 * SECOND, max: 90 * SECOND },
    },
  ],
  [
    'it has two projects, one with three times as many items',
    {
      ...{ items: { a: 45, b: 15 }, maxOpen: 10, limit: 10, windowMs: 10 * MINUTE },
      turnMs: { min: 60 * SECOND, max: 120 * SECOND },
    },
  ],
  [
    'it has hundreds of items on the usual budget',
    { items: { a: 450 }, maxOpen: 50, limit: 100, windowMs: 60 * MINUTE, turnMs: { min: 2 * MINUTE, max: 8 * MINUTE } },
  ],
];

describe('from the fifth item on, the expected end of a batch is off by at most a tenth of the time that is left', () => {
  // At the very end, only a turn or two is left. The forecast knows no more of these than the spread of earlier turns.
  test.each(profiles)('if %s', (_what, profile) => {
    const spreadMs = profile.turnMs.max - profile.turnMs.min;
    for (const seed of [1, 2, 3]) {
      const errors = errorsFrom(5, run(profile, seed));
      expect(errors.length).toBeGreaterThan(10);
      const bad = errors.filter(({ leftMs, offMs }) => offMs > Math.max(leftMs / 10, 0.75 * spreadMs));
      expect(bad, `seed ${seed}`).toEqual([]);
    }
  });
});
