import { expect, it } from 'vitest';
import { describeBudget } from '../../src/budget/budget-details.js';
import { budgetStatus } from '../../src/budget/status.js';
import { Desk, followUp, MINUTE, OVER } from './rules.js';

it('says what the service answered, and not that it accepts others if it refused each for its own reason', () => {
  const desk = new Desk();
  desk.ask('bad');
  desk.report('bad', 'rejected', { statusCode: 400 });
  desk.ask('unclear');
  desk.report('unclear', 'unknown', { statusCode: 502 });
  const text = describeBudget(budgetStatus('project', desk.state, desk.nowMs), desk.nowMs);
  expect(text).toContain('- refused or unclear: 502 to 1 of 2 messages\n');
});

it('does not say that others are accepted if that was before a key was revoked', () => {
  const desk = new Desk();
  desk.ask('good');
  desk.report('good');
  desk.wait(40 * MINUTE);
  for (const name of ['a', 'b']) desk.ask(name);
  for (const name of ['a', 'b']) desk.report(name, 'credentials', { statusCode: 401 });
  const status = budgetStatus('project', desk.state, desk.nowMs);
  expect(status.refused).toMatchObject([{ messages: 2, of: 3, accepted: 0 }]);
  expect(describeBudget(status, desk.nowMs)).toMatch(/^\*\*paused: the service answers 401 to 2 of 3 messages since /);
});

it('does not say of sends that it found in the list how the service answered them', () => {
  const desk = new Desk({ counts: true });
  desk.book(['a', 'b'].map((name) => ({ workflowId: followUp(name), isRunning: false })));
  const status = budgetStatus('project', desk.state, desk.nowMs);
  expect(status).not.toHaveProperty('refused');
  expect(status.lastSends).toMatchObject([{ outcome: 'unknown' }, { outcome: 'unknown' }]);
});

it('names the status that paused the project, also if it was a read that the service refused', () => {
  const desk = new Desk();
  desk.ask('a', { refusal: 'credentials', statusCode: 403 });
  const status = budgetStatus('project', desk.state, desk.nowMs);
  expect(describeBudget(status, desk.nowMs)).toMatch(/^\*\*paused: the service answers 403 since /);
  expect(desk.ask('b')).toMatchObject({ reason: 'credentials', pause: { by: 'service', statusCode: 403 } });
});

it('shows a send as under way until no byte of it can arrive, and then as unknown if nobody said how it ended', () => {
  const desk = new Desk().play('ask a');
  // Nothing happens to the budget in between.
  const statusAt = (nowMs: number) => budgetStatus('project', desk.state, nowMs);
  const { lastSends, underWay } = statusAt(desk.nowMs);
  expect([lastSends[0]?.workflowId, lastSends[0]?.outcome, underWay]).toEqual([followUp('a'), undefined, 1]);
  expect(statusAt(desk.nowMs + OVER)).toMatchObject({ underWay: 0, lastSends: [{ outcome: 'unknown' }] });
  desk.play('wait 2h, report a');
  expect(statusAt(desk.nowMs).lastSends).toMatchObject([{ outcome: 'sent' }]);
});
