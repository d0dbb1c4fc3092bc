import { describe, expect, it } from 'vitest';
import { budgetStatus } from '../../src/budget/status.js';
import { iso } from '../../src/contract/durations.js';
import { Desk, HELD, HOUR, MINUTE, names, T0, testRules } from './support.js';

const statusOf = (desk: Desk) => budgetStatus('project', desk.budget, desk.nowMs);

describe('slots that are taken for other messages', () => {
  it('are used for a window, and stand in the audit', () => {
    const desk = new Desk({ limit: 5 });
    expect(desk.take('k', 3)).toEqual({ taken: true, count: 3, takenAt: iso(T0) });
    expect(statusOf(desk)).toMatchObject({
      used: 3,
      nextFreeSlotAt: iso(T0 + HELD),
      lastSends: [{ workflowId: 'take/k', sendNumber: 3, grantedAt: iso(T0), settledAt: iso(T0), outcome: 'taken' }],
    });
    desk.askAll(names('a', 4));
    expect(statusOf(desk)).toMatchObject({ used: 5, waitingTotal: 2 });
    desk.wait(HELD);
    expect(statusOf(desk).waitingTotal).toBe(0);
  });

  it('are all taken or none, and the answer says when they can be', () => {
    const desk = new Desk({ limit: 5 });
    desk.take('one', 2);
    desk.wait(MINUTE);
    desk.take('two', 2);
    const possibleAt = iso(T0 + HELD);
    expect(desk.take('three', 3)).toEqual({ taken: false, count: 3, waitReason: 'slot', possibleAt });
    expect(desk.take('three', 4)).toMatchObject({ possibleAt: iso(T0 + MINUTE + HELD) });
    expect(statusOf(desk).used).toBe(4);
    desk.wait(HELD - MINUTE);
    expect(desk.take('three', 3)).toMatchObject({ taken: true });
  });

  it('are taken once for a key, also after their window and in the next run', () => {
    const desk = new Desk({ limit: 5, isRebuilt: true });
    const first = desk.take('k', 3);
    desk.wait(2 * HOUR);
    desk.ask('a');
    expect(desk.take('k', 2)).toEqual(first);
    expect(statusOf(desk).used).toBe(1);
  });

  testRules(`
  - leave those in line their slots, but not those whose job is busy [limit=20]
    ask a*13, take k 8 -> false, ask behind@a0, take k 7 -> true
  - leave the batch lane only the slots that it may use [limit=10 reserve=5]
    ask b*30 lane=batch, take k 6 -> false, take k 5 -> true
  `);

  it('are refused with the reason while nothing is sent', () => {
    const paused = new Desk();
    paused.pause({ untilMs: T0 + MINUTE });
    expect(paused.take('k', 1)).toEqual({ taken: false, count: 1, waitReason: 'paused' });
    expect(new Desk({ counts: true }).take('k', 1)).toEqual({ taken: false, count: 1, waitReason: 'counting' });
    const refused = new Desk();
    refused.ask('a');
    refused.settle('a', 'unauthorized');
    expect(refused.take('k', 1)).toEqual({ taken: false, count: 1, waitReason: 'credentials' });
  });
});
