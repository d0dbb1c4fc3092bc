import { expect, test } from 'vitest';
import { Budget, carryState, newState, restoreState } from '../../src/budget/index.js';
import { followUpWorkflowId } from '../../src/contract/index.js';
import { acquire, ask, askOnce, MARGIN_MS, newBudget, settle, T0, WINDOW_MS } from './support.js';

const HOUR_MS = 3_600_000;

/** Grants and settles one send an hour, and never ends a turn. */
function spendAndVanish(
  budget: Budget,
  from: number,
  to: number,
  idOf: (index: number) => { jobId: string; key: string },
) {
  for (let index = from; index < to; index++) {
    const nowMs = T0 + HOUR_MS * index;
    const { jobId, key } = idOf(index);
    const workflowId = followUpWorkflowId({ projectId: budget.state.projectId, jobId, key });
    const token = `${index}`.padStart(36, '0');
    const [answer] = askOnce(budget, nowMs, ask(workflowId, nowMs, { jobId, token, firstRunStartedAtMs: nowMs }));
    expect(answer.kind).toBe('granted');
    budget.hear(nowMs + 400, [{ kind: 'settle', workflowId, sendNumber: 1, token, outcome: 'sent' }]);
  }
}

test('100,000 follow-ups that are terminated during their turn leave a state under 480 KiB', () => {
  const projectId = 'project-'.padEnd(100, 'x');
  const budget = new Budget(newState(projectId, { limit: 100, windowMs: WINDOW_MS, reserve: 0, marginMs: MARGIN_MS }));
  const uuid = (index: number) => `${index.toString(16).padStart(8, '0')}-0000-4000-8000-${'a'.repeat(12)}`;
  spendAndVanish(budget, 0, 100_000, (index) => ({ jobId: uuid(index), key: uuid(index) }));
  const json = JSON.stringify(carryState(budget.state));
  expect(json.length).toBeLessThan(480 * 1_024);
  expect(restoreState(JSON.parse(json))).toEqual(budget.state);
});

test('with more than 100 turns, each grant checks one owner: the one that was checked longest ago', () => {
  const budget = newBudget({ limit: 10_000, windowMs: HOUR_MS * 1_000 });
  const checked = Array.from({ length: 300 }, (_, index) => {
    const [, { check }] = askOnce(budget, T0 + 60_001 * index, ask(`w${index}`, T0 + 60_001 * index));
    settle(budget, T0 + 60_001 * index, `w${index}`);
    return check[0];
  });
  expect(checked.slice(0, 100)).toEqual(Array<undefined>(100).fill(undefined));
  expect(checked.slice(100)).toEqual(Array.from({ length: 200 }, (_, index) => `w${index}`));
});

test('the turns of owners that are gone end, and all others last', () => {
  const budget = newBudget({ limit: 10_000 });
  const isAlive = (workflowId: string) => Number(workflowId.slice(1)) % 10 === 0;
  for (let index = 0; index < 1_000; index++) {
    const nowMs = T0 + 60_001 * index;
    const [, { check }] = askOnce(budget, nowMs, ask(`w${index}`, nowMs));
    settle(budget, nowMs, `w${index}`);
    for (const owner of check) if (!isAlive(owner)) budget.gone(nowMs + 10, owner);
  }
  const nowMs = T0 + 60_001 * 1_000;
  for (let index = 0; index < 900; index += 10) {
    expect(acquire(budget, nowMs, `other-${index}`, { jobId: `job-w${index}` })).toMatchObject({ reason: 'job-busy' });
  }
  expect(acquire(budget, nowMs, 'next', { jobId: 'job-w1' })).toMatchObject({ kind: 'granted' });
});

test('beyond 300 turns the oldest is dropped, and its job is free', () => {
  const budget = newBudget({ limit: 10_000 });
  for (let index = 0; index <= 300; index++) {
    acquire(budget, T0, `w${index}`);
    settle(budget, T0, `w${index}`);
  }
  expect(acquire(budget, T0, 'a', { jobId: 'job-w1' })).toMatchObject({ kind: 'wait', reason: 'job-busy' });
  expect(acquire(budget, T0, 'b', { jobId: 'job-w0' })).toMatchObject({ kind: 'granted' });
});
