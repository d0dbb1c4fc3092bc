import { expect, onTestFinished, test } from 'vitest';
import { failureOf } from '../support/failure-of.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { FAST, startStack } from '../support/stack.js';
import { createTimeSkippingEnvironment, withoutList } from '../support/time-skipping-server.js';

const missing = await findMissing(['time-skipping-server']);
const LARGEST_PROMPT = 'x'.repeat(256 * 1_024);

describeWith(missing)('a follow-up with the largest prompt', () => {
  test.each([
    [
      'ends as BudgetWaitTimeout before its history is full if its message is refused for a year',
      'POST',
      '365d',
      'history',
      [90, 160],
    ],
    [
      'ends as BudgetWaitTimeout in time if reads are refused for a week, because none writes the prompt again',
      'GET',
      '7d',
      'in time',
      [0, 0],
    ],
  ] as const)(
    '%s',
    async (_, method, budgetWaitTimeout, reason, [least, most]) => {
      const environment = await createTimeSkippingEnvironment({ env: process.env });
      onTestFinished(() => environment.teardown());
      const worker = { interceptors: { activity: [withoutList] } };
      const stack = await startStack({ address: environment.address, worker });
      onTestFinished(() => stack.stop());
      const job = { projectId: 'demo', jobId: 'job' };
      stack.simulator.addJob(job);
      stack.simulator.failNext({ method, how: { status: 402 }, times: Infinity });
      const input = { ...job, ...FAST, prompt: LARGEST_PROMPT, budgetWaitTimeout };
      const { workflowId } = await stack.followUps.start(input);
      const end = await failureOf(environment.client.workflow.getHandle(workflowId).result());
      expect(end).toMatchObject({ type: 'BudgetWaitTimeout', delivered: 'no' });
      expect(end.message).toContain(reason);
      expect(stack.simulator.ledger.length).toBeGreaterThanOrEqual(least);
      expect(stack.simulator.ledger.length).toBeLessThanOrEqual(most);
    },
    600_000,
  );
});
