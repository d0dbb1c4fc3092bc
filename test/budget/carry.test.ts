import { expect, test } from 'vitest';
import { Budget, carryState, newState, restoreState } from '../../src/budget/index.js';
import { followUpWorkflowId } from '../../src/contract/index.js';
import type { AcquireRequest } from '../../src/contract/protocol.js';
import { acquire, ask, askOnce, DRAIN_MS, LEASE_MS, MARGIN_MS, T0, WINDOW_MS } from './support.js';

/** An id of 100 characters, unlike its neighbours from the start. */
const longId = (index: number) => `${index.toString(36)}-`.padEnd(100, 'job-with-a-long-name-');

/** A budget whose lists are all full: waiters, memory, turns, last jobs, audit. */
function fullBudget(): Budget {
  const projectId = 'project-'.padEnd(100, 'x');
  const budget = new Budget(newState(projectId, { limit: 100, windowMs: WINDOW_MS, reserve: 10, marginMs: MARGIN_MS }));
  let nowMs = T0;
  const request = (index: number): AcquireRequest => {
    const jobId = longId(index);
    const workflowId = followUpWorkflowId({ projectId, jobId, key: 'night-of-2026-01-01' });
    const token = `${index}`.padStart(36, '0');
    return ask(workflowId, nowMs, { jobId, token, firstRunStartedAtMs: nowMs - 3_600_000 * (index % 24) });
  };
  const state = budget.state;
  for (let index = 0; index < 7_600; index++) {
    nowMs += 30_123;
    state.settings.limit = 10_000;
    const { workflowId, jobId, token } = request(index);
    const [answer] = askOnce(budget, nowMs, request(index));
    if (answer.kind !== 'granted') throw new Error(`not granted: ${JSON.stringify(answer)}`);
    budget.hear(nowMs + 400, [{ kind: 'settle', workflowId, sendNumber: 1, token, outcome: 'sent' }]);
    const lastJobSeen = { status: 'completed', prLinkHash: '0123456789abc', archivedAt: null };
    if (index < 7_300)
      budget.hear(nowMs + 500, [{ kind: 'finish', workflowId, jobId, sendNumber: 1, outcome: 'sent', lastJobSeen }]);
  }
  state.settings.limit = 100;
  for (let index = 8_000; state.waiters.length < 1_000; index++) {
    nowMs += 7;
    askOnce(budget, nowMs, { ...request(index), lane: index % 3 ? 'batch' : 'interactive', hold: index % 5 === 0 });
  }
  return budget;
}

test('a full budget is carried in less than 480 KiB and restored whole', () => {
  const budget = fullBudget();
  const { state } = budget;
  expect(state.waiters.length).toBe(1_000);
  expect(state.memory.size).toBe(7_500);
  expect(state.grants.length).toBeGreaterThanOrEqual(100);
  expect(state.turns.size).toBe(300);
  expect(state.lastJobs.size).toBe(250);
  const json = JSON.stringify(carryState(state));
  expect(json.length).toBeLessThan(480 * 1_024);
  expect(restoreState(JSON.parse(json))).toEqual(state);
});

test('a limit of 1,000 an hour holds although only the last 100 sends are kept in full', () => {
  const budget = new Budget(newState('p', { limit: 1_000, windowMs: WINDOW_MS, reserve: 0, marginMs: MARGIN_MS }));
  for (let index = 0; index < 1_000; index++) {
    const atMs = T0 + index;
    const workflowId = `w${index}`;
    expect(askOnce(budget, atMs, ask(workflowId, atMs))[0].kind).toBe('granted');
    budget.hear(atMs, [{ kind: 'settle', workflowId, sendNumber: 1, token: `token-${workflowId}`, outcome: 'sent' }]);
  }
  expect(budget.state.grants.length).toBe(100);
  expect(budget.status(T0 + 1_000).used).toBe(1_000);
  const firstEndMs = T0 + WINDOW_MS + MARGIN_MS;
  expect(acquire(budget, firstEndMs - 5_000, 'late').kind).toBe('wait');
  expect(acquire(budget, firstEndMs - 1, 'late')).toMatchObject({ kind: 'granted', grantedAtMs: firstEndMs });
});

test('an unsettled send is kept in full for as long as its settle may still come', () => {
  const budget = new Budget(newState('p', { limit: 1_000, windowMs: WINDOW_MS, reserve: 0, marginMs: MARGIN_MS }));
  askOnce(budget, T0, ask('slow', T0));
  for (let index = 0; index < 150; index++) {
    const atMs = T0 + LEASE_MS + index;
    askOnce(budget, atMs, ask(`w${index}`, atMs));
    budget.hear(atMs, [
      { kind: 'settle', workflowId: `w${index}`, sendNumber: 1, token: `token-w${index}`, outcome: 'sent' },
    ]);
  }
  const settled = () => askOnce(budget, T0 + LEASE_MS + 200, ask('slow', T0 + LEASE_MS + 200, { token: 'other' }))[0];
  expect(settled()).toMatchObject({ kind: 'alreadyGranted', leaseLeftMs: 0, drainLeftMs: DRAIN_MS - 200 });
  budget.hear(T0 + LEASE_MS + 300, [
    { kind: 'settle', workflowId: 'slow', sendNumber: 1, token: 'token-slow', outcome: 'sent' },
  ]);
  expect(settled()).toMatchObject({ kind: 'done', outcome: 'sent' });
});
