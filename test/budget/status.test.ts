import { expect, it } from 'vitest';
import { budgetStatus } from '../../src/budget/status.js';
import { iso } from '../../src/contract/durations.js';
import { Desk, followUp, OVER, T0 } from './support.js';

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

it('shows why and until when a message waits that the service refuses', () => {
  const refusedAgain = 'settle bad payment, resume, ask bad number=2, settle bad payment number=2';
  const desk = new Desk().play(`ask bad, ${refusedAgain}, resume, ask other, settle other, ask bad number=3`);
  const [waiter] = budgetStatus('project', desk.budget, desk.nowMs).waiting;
  expect(waiter).toMatchObject({
    workflowId: followUp('bad'),
    refusal: { reason: 'payment', until: iso(T0 + 30_000) },
  });
  expect(waiter).not.toHaveProperty('expectedAt');
});
