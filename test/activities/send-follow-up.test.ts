import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { MockActivityEnvironment } from '@temporalio/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Ask, BudgetClient } from '../../src/activities/budget-client.js';
import { createSendFollowUp } from '../../src/activities/send-follow-up.js';
import { createAgentJobsClient } from '../../src/agent-jobs/index.js';
import type { AcquireRequest, BudgetWord } from '../../src/contract/protocol.js';

/** A service that accepts every message and notes the time. */
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

const input = {
  projectId: 'p',
  jobId: 'j',
  messageTag: 'messages',
  lane: 'interactive' as const,
  sendNumber: 1,
  hold: false,
  firstRunStartedAtMs: Date.now(),
  askNumber: 2,
  provenNotSent: true as const,
};

/** The activity with a budget of which only `acquire` matters. */
function makeSendFollowUp(
  url: string,
  acquire: BudgetClient['acquire'],
  { leaseMs = 35_000, told = Promise.resolve(true) } = {},
) {
  const agentJobs = createAgentJobsClient({
    baseUrl: url,
    keys: { forProject: () => Promise.resolve('adm_0123456789abcdef') },
    getTimeoutMs: 5_000,
    sendTimeoutMs: 5_000,
  });
  onTestFinished(() => agentJobs.close());
  const settled: (BudgetWord & { isUrgent: boolean })[] = [];
  const sendFollowUp = createSendFollowUp({
    agentJobs,
    budget: {
      acquire,
      tell(_projectId, word, { isUrgent }) {
        settled.push({ ...word, isUrgent });
        return told;
      },
      allTold: () => Promise.resolve(),
    },
    ownRun: { readPrompt: () => Promise.resolve('x'), noteGrant: () => Promise.resolve() },
    sendTimeoutMs: 5_000,
    leaseMs,
    drainMs: 120_000,
  });
  return { sendFollowUp, settled };
}

const letGo: Ask = {
  answer: { kind: 'wait', reason: 'budget-silent', waitMs: 5_000, position: 0, etaMs: null },
  proven: false,
};

test('a message that was granted ahead leaves when its slot begins, and not before', { tags: 'long' }, async () => {
  const sendAfterMs = 700;
  const { url, receivedAtMs } = await useService();
  let grantedAtMs = 0;
  const { sendFollowUp, settled } = makeSendFollowUp(url, () => {
    grantedAtMs = performance.now();
    return Promise.resolve({
      proven: true,
      answer: { kind: 'granted', grantedAtMs: Date.now() + sendAfterMs, sendAfterMs, ledgerSinceMs: 0 },
    });
  });
  const result = await new MockActivityEnvironment().run(sendFollowUp, input);
  expect(result).toMatchObject({ kind: 'outcome', outcome: 'sent' });
  expect(receivedAtMs).toHaveLength(1);
  expect(receivedAtMs[0]! - grantedAtMs).toBeGreaterThanOrEqual(sendAfterMs);
  expect(settled).toMatchObject([{ outcome: 'sent' }]);
});

test('a send is reported at once, even if the budget does not hear of it', async () => {
  const { url } = await useService();
  const granted: Ask = { proven: true, answer: { kind: 'granted', grantedAtMs: Date.now(), ledgerSinceMs: 0 } };
  const told = new Promise<boolean>(() => undefined);
  const { sendFollowUp } = makeSendFollowUp(url, () => Promise.resolve(granted), { told });
  const result = await new MockActivityEnvironment().run(sendFollowUp, input);
  expect(result).toMatchObject({ kind: 'outcome', outcome: 'sent' });
});

test.each([
  { what: 'that others await', grant: { isAwaited: true as const }, isUrgent: true },
  { what: 'that nobody awaits', grant: {}, isUrgent: false },
  { what: 'that was not made', grant: {}, url: 'http://127.0.0.1:9', isUrgent: true },
])('the budget hears at once of a send $what: $isUrgent', async ({ grant, url, isUrgent }) => {
  const service = await useService();
  const answer = { kind: 'granted' as const, grantedAtMs: Date.now(), ledgerSinceMs: 0, ...grant };
  const { sendFollowUp, settled } = makeSendFollowUp(url ?? service.url, () =>
    Promise.resolve({ proven: true, answer }),
  );
  await new MockActivityEnvironment().run(sendFollowUp, input);
  expect(settled).toMatchObject([{ kind: 'settle', isUrgent }]);
});

describe('that no earlier ask has sent', () => {
  const reset = { scheduledTimestampMs: 1_000, currentAttemptScheduledTimestampMs: 2_000 };
  test.each([
    { what: 'the first attempt says', info: { attempt: 1 }, says: true },
    { what: 'a later attempt does not say', info: { attempt: 2 }, says: undefined },
    { what: 'the first attempt after a reset does not say', info: { attempt: 1, ...reset }, says: undefined },
  ])('$what, to the budget and to its follow-up', async ({ info, says }) => {
    const requests: AcquireRequest[] = [];
    const { sendFollowUp } = makeSendFollowUp('http://127.0.0.1:9', (_projectId, request) => {
      requests.push(request);
      return Promise.resolve(letGo);
    });
    const result = await new MockActivityEnvironment(info).run(sendFollowUp, input);
    expect(requests.map(({ askNumber, provenNotSent }) => ({ askNumber, provenNotSent }))).toEqual([
      { askNumber: 2, provenNotSent: says },
    ]);
    expect(result).toHaveProperty('kind', 'wait');
    expect((result as { provenNotSent?: true }).provenNotSent).toBe(says);
  });

  test('is not said by an attempt that took longer than its lease, because another may be at work', async () => {
    const leaseMs = 20;
    const { sendFollowUp } = makeSendFollowUp('http://127.0.0.1:9', () => delay(leaseMs + 5, letGo), { leaseMs });
    await expect(new MockActivityEnvironment().run(sendFollowUp, input)).rejects.toThrow('longer than its lease');
  });
});
