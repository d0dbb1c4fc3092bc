import { describe, expect, it } from 'vitest';
import { budgetStatus } from '../../src/budget/status.js';
import { iso } from '../../src/common/index.js';
import { Desk, HELD, HOUR, MINUTE, T0, testRules } from './rules.js';

const statusOf = (desk: Desk) => budgetStatus('project', desk.state, desk.nowMs);

describe('slots that are taken for other messages', () => {
  it('are used for a window and stand in the audit, all or none, and the reply says when they can be taken', () => {
    const desk = new Desk({ limit: 5 });
    expect(desk.take('one', 2)).toEqual({ taken: true, count: 2, takenAt: iso(T0) });
    const audited = { workflowId: 'take/one', sendNumber: 2, grantedAt: iso(T0), outcomeAt: iso(T0), outcome: 'taken' };
    expect(statusOf(desk)).toMatchObject({ used: 2, nextFreeSlotAt: iso(T0 + HELD), lastSends: [audited] });
    desk.wait(MINUTE);
    desk.take('two', 2);
    const possibleAt = iso(T0 + HELD);
    expect(desk.take('three', 3)).toEqual({ taken: false, count: 3, waitReason: 'slot', possibleAt });
    expect(desk.take('three', 4)).toMatchObject({ possibleAt: iso(T0 + MINUTE + HELD) });
    desk.play('used -> 4, ask a*2').wait(HELD - MINUTE);
    expect(desk.take('three', 1)).toMatchObject({ taken: true });
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
    const paused = new Desk().play('pause 1m');
    expect(paused.take('k', 1)).toEqual({ taken: false, count: 1, waitReason: 'paused' });
    expect(new Desk({ counts: true }).take('k', 1)).toMatchObject({ taken: false, waitReason: 'counting' });
    const refused = new Desk().play('ask a, report a credentials');
    expect(refused.take('k', 1)).toMatchObject({ taken: false, waitReason: 'credentials' });
  });
});
