import { expect, it } from 'vitest';
import { describeBudget } from '../../src/budget/details.js';
import { budgetStatus } from '../../src/budget/status.js';
import { Desk, followUp, HOUR, listed, names, OVER } from './support.js';

const statusOf = ({ budget, nowMs }: Desk) => budgetStatus('project', budget, nowMs);

it('shows a send as under way until no byte of it can arrive, and then as unknown if nobody said how it ended', () => {
  const desk = new Desk();
  desk.ask('a');
  expect(statusOf(desk).lastSends).toMatchObject([{ workflowId: followUp('a') }]);
  expect(statusOf(desk).lastSends[0]).not.toHaveProperty('outcome');
  desk.wait(OVER);
  expect(statusOf(desk)).toMatchObject({ unsettled: 0, lastSends: [{ outcome: 'unknown' }] });
  const quiet = new Desk();
  quiet.ask('a');
  expect(budgetStatus('project', quiet.budget, quiet.nowMs + OVER)).toEqual(statusOf(desk));
  desk.wait(HOUR);
  desk.settle('a', 'sent');
  expect(statusOf(desk).lastSends).toMatchObject([{ outcome: 'sent' }]);
});

it('says that more slots are used than the limit has, whatever led to it', () => {
  const desk = new Desk({ limit: 10, counts: true });
  desk.book(listed(names('a', 15)));
  const [state] = describeBudget(statusOf(desk), desk.nowMs).split('\n');
  expect(state).toBe('**sends nothing until 5 slots are free: more are used than its limit allows**');
});
