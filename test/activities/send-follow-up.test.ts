import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { MockActivityEnvironment } from '@temporalio/testing';
import { expect, onTestFinished, test } from 'vitest';
import type { BudgetClient } from '../../src/activities/index.js';
import { createSendFollowUp } from '../../src/activities/send-follow-up.js';
import { createAgentJobsClient } from '../../src/agent-jobs/index.js';
import type { SettleMessage } from '../../src/contract/index.js';

/** A service that takes every message and notes when. */
async function useService(): Promise<{ url: string; receivedAtMs: number[] }> {
  const receivedAtMs: number[] = [];
  const server = createServer((_request, response) => {
    receivedAtMs.push(performance.now());
    response.setHeader('content-type', 'application/json').end('{"id":"j","status":"active"}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, receivedAtMs };
}

test('a message that was granted ahead leaves when its slot begins, and not before', async () => {
  const sendAfterMs = 700;
  const { url, receivedAtMs } = await useService();
  const agentJobs = createAgentJobsClient({
    baseUrl: url,
    keys: { forProject: () => Promise.resolve('adm_0123456789abcdef') },
    getTimeoutMs: 5_000,
    sendTimeoutMs: 5_000,
  });
  onTestFinished(() => agentJobs.close());
  let grantedAtMs = 0;
  const settled: SettleMessage[] = [];
  const budget: BudgetClient = {
    acquire() {
      grantedAtMs = performance.now();
      return Promise.resolve({
        proven: true,
        answer: { kind: 'granted', grantedAtMs: Date.now() + sendAfterMs, sendAfterMs, ledgerSinceMs: 0 },
      });
    },
    settle(_projectId, message) {
      settled.push(message);
      return Promise.resolve();
    },
    tell: () => Promise.resolve(true),
  };
  const sendFollowUp = createSendFollowUp({
    agentJobs,
    budget,
    ownRun: { readPrompt: () => Promise.resolve('x'), noteGrant: () => Promise.resolve() },
    sendTimeoutMs: 5_000,
    leaseMs: 35_000,
    drainMs: 120_000,
  });
  const result = await new MockActivityEnvironment().run(sendFollowUp, {
    projectId: 'p',
    jobId: 'j',
    messageTag: 'messages',
    lane: 'interactive' as const,
    sendNumber: 1,
    hold: false,
    firstRunStartedAtMs: Date.now(),
  });
  expect(result).toMatchObject({ kind: 'outcome', outcome: 'sent' });
  expect(receivedAtMs).toHaveLength(1);
  expect(receivedAtMs[0]! - grantedAtMs).toBeGreaterThanOrEqual(sendAfterMs);
  expect(settled).toMatchObject([{ outcome: 'sent' }]);
});
