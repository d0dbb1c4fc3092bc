import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { FAST, startStack, type Stack } from '../support/stack.js';

const LIMIT = 5;
const WINDOW_MS = 5_000;
let stack: Stack;

beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    env: { FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`, FOLLOW_UP_BUDGET_WINDOW: `${WINDOW_MS}ms`, FOLLOW_UP_MARGIN: '200ms' },
    simulator: { limiter: { kind: 'sliding', limit: LIMIT, windowMs: WINDOW_MS } },
  });
});
afterAll(() => stack.stop());

test('20 follow-ups on a budget of 5 per 5 s: never 6 in any 5 s, none refused, none lost, in order', async () => {
  const projectId = `budget-${Date.now()}`;
  const inputs = Array.from({ length: 20 }, (_, index) => ({
    projectId,
    jobId: `job-${index}`,
    prompt: `message ${index}`,
    ...FAST,
  }));
  for (const { jobId } of inputs) stack.simulator.addJob({ projectId, jobId });
  const handles = await Promise.all(inputs.map((input) => stack.followUps.start(input)));
  const results = await Promise.all(handles.map((handle) => handle.result()));
  expect(results.every((result) => result.status === 'completed' && result.delivery === 'sent')).toBe(true);
  const ledger = stack.simulator.ledger.filter((entry) => entry.projectId === projectId);
  expect(ledger.map((entry) => entry.status)).toEqual(Array<number>(20).fill(200));
  expect(new Set(ledger.map((entry) => entry.jobId)).size).toBe(20);
  expect(stack.simulator.maxInAnyWindow(projectId, WINDOW_MS)).toBe(LIMIT);
  // Four windows are enough if freed slots are used. The rest is for a busy machine.
  const spanMs = (ledger.at(-1)?.receivedAtMs ?? 0) - (ledger[0]?.receivedAtMs ?? 0);
  expect(spanMs).toBeLessThan(12 * WINDOW_MS);
});
