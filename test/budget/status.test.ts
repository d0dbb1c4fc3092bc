import { expect, it } from 'vitest';
import { budgetStatus } from '../../src/budget/status.js';
import { Desk, followUp, OVER } from './support.js';

it('shows a send as under way until no byte of it can arrive, and then as unknown if nobody said how it ended', () => {
  const desk = new Desk().play('ask a');
  // Nothing happens to the budget in between.
  const statusAt = (nowMs: number) => budgetStatus('project', desk.budget, nowMs);
  const { lastSends, unsettled } = statusAt(desk.nowMs);
  expect([lastSends[0]?.workflowId, lastSends[0]?.outcome, unsettled]).toEqual([followUp('a'), undefined, 1]);
  expect(statusAt(desk.nowMs + OVER)).toMatchObject({ unsettled: 0, lastSends: [{ outcome: 'unknown' }] });
  desk.play('wait 2h, settle a');
  expect(statusAt(desk.nowMs).lastSends).toMatchObject([{ outcome: 'sent' }]);
});
