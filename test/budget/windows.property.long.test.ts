import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Budget, carryState, restoreState } from '../../src/budget/index.js';
import type { SendOutcome } from '../../src/contract/index.js';
import { ask, askOnce, DRAIN_MS, LEASE_MS, newBudget, T0, WINDOW_MS } from './support.js';

/** The life of one follow-up, with its faults. All times are in milliseconds. */
interface Life {
  startMs: number;
  /** From the grant to the first byte of the POST. The last check allows no more than the slack. */
  sendDelayMs: number;
  /** From the POST to the last byte that arrives. Only the drain leaves time for bytes after the lease. */
  arrivalDelayMs: number;
  settleDelayMs: number;
  outcome: SendOutcome | 'lost';
  finishes: boolean;
  job: number;
}

const life: fc.Arbitrary<Life> = fc.record({
  startMs: fc.integer({ min: 0, max: 4 * WINDOW_MS }),
  sendDelayMs: fc.integer({ min: 0, max: 30_000 }),
  arrivalDelayMs: fc.oneof(fc.integer({ min: 0, max: 500 }), fc.integer({ min: 0, max: 30_000 + DRAIN_MS })),
  settleDelayMs: fc.oneof(fc.integer({ min: 0, max: 500 }), fc.integer({ min: 0, max: WINDOW_MS })),
  outcome: fc.constantFrom<Life['outcome']>(
    'sent',
    'sent',
    'sent',
    'rejected',
    'limited',
    'unknown',
    'notSent',
    'lost',
  ),
  finishes: fc.boolean(),
  job: fc.integer({ min: 0, max: 20 }),
});

/** Plays the lives against one budget, event by event in the order of time. Returns the ledger of arrivals. */
function play(limit: number, lives: Life[], carryEvery: number): number[] {
  let budget = newBudget({ limit });
  const ledger: number[] = [];
  const events: { atMs: number; run: (atMs: number) => void }[] = [];
  const at = (atMs: number, run: (atMs: number) => void) => events.push({ atMs, run });
  let count = 0;
  lives.forEach((each, index) => {
    const workflowId = `w${index}`;
    const jobId = `j${each.job}`;
    let asks = 0;
    const askNow = (atMs: number, sendNumber: number) => {
      const token = `${workflowId}-${++asks}`;
      const [answer] = askOnce(budget, atMs, ask(workflowId, atMs, { jobId, token, sendNumber }));
      if (answer.kind === 'wait') {
        if (asks < 40) at(atMs + answer.waitMs, (later) => askNow(later, sendNumber));
        return;
      }
      if (answer.kind !== 'granted') return;
      const grantedMs = atMs + (answer.sendAfterMs ?? 0);
      const sentMs = grantedMs + each.sendDelayMs;
      const { outcome } = each;
      // Only a message that provably was not written leaves no trace at the service.
      const arrivedMs =
        outcome === 'notSent' ? undefined : Math.min(sentMs + each.arrivalDelayMs, grantedMs + LEASE_MS + DRAIN_MS);
      if (arrivedMs !== undefined) ledger.push(arrivedMs);
      // The service answers after the arrival. `unknown` may be reported before the bytes arrive.
      const saidMs = outcome === 'unknown' ? sentMs : (arrivedMs ?? sentMs);
      if (outcome !== 'lost') {
        at(saidMs + each.settleDelayMs, (later) =>
          budget.hear(later, [
            { kind: 'settle', workflowId, sendNumber, token, outcome, agoMs: index % 2 === 0 ? later - saidMs : 0 },
          ]),
        );
      }
      if (outcome === 'notSent' || outcome === 'limited') {
        if (sendNumber < 3) at(saidMs + 1_000, (later) => askNow(later, sendNumber + 1));
      } else if (each.finishes) {
        at(saidMs + 2_000, (later) => budget.hear(later, [{ kind: 'finish', workflowId, jobId, sendNumber }]));
      } else {
        at(saidMs + 2_000, (later) => budget.gone(later, workflowId));
      }
    };
    at(T0 + each.startMs, (atMs) => askNow(atMs, 1));
  });
  while (events.length > 0) {
    let next = 0;
    for (let index = 1; index < events.length; index++) {
      if ((events[index]?.atMs ?? 0) < (events[next]?.atMs ?? 0)) next = index;
    }
    const [event] = events.splice(next, 1);
    event?.run(event.atMs);
    if (++count % carryEvery === 0) {
      budget = new Budget(restoreState(JSON.parse(JSON.stringify(carryState(budget.state)))));
    }
  }
  return ledger.sort((a, b) => a - b);
}

/** The most arrivals in any window that starts with an arrival. */
function mostInAnyWindow(ledger: number[], windowMs: number): number {
  let most = 0;
  for (let first = 0, last = 0; last < ledger.length; last++) {
    while ((ledger[last] ?? 0) - (ledger[first] ?? 0) >= windowMs) first++;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

test('no rolling window of the service ever holds more messages than the limit, whatever is lost, late or repeated', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5 }),
      fc.array(life, { minLength: 5, maxLength: 40 }),
      fc.integer({ min: 1, max: 50 }),
      (limit, lives, carryEvery) => {
        expect(mostInAnyWindow(play(limit, lives, carryEvery), WINDOW_MS)).toBeLessThanOrEqual(limit);
      },
    ),
    { numRuns: 2_000 },
  );
});

test('the checker counts the messages of a window to the millisecond', () => {
  expect(mostInAnyWindow([0, 1, 2, WINDOW_MS - 1], WINDOW_MS)).toBe(4);
  expect(mostInAnyWindow([0, 1, 2, WINDOW_MS], WINDOW_MS)).toBe(3);
});
