import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { AgentJobsClient } from '../../src/agent-jobs/index.js';
import { boundSends, type SendBounds } from '../../src/worker/bound-sends.js';

function boundClient(projects: SendBounds['projects'] = '*') {
  const posted: string[] = [];
  const read: string[] = [];
  const client: AgentJobsClient = {
    getJob: async ({ projectId }) => {
      read.push(projectId);
      return { kind: 'job', job: {} };
    },
    sendMessage: async ({ projectId, mayStart }) => {
      if (!mayStart()) return { outcome: 'notSent' };
      posted.push(projectId);
      return { outcome: 'sent' };
    },
    close: async () => undefined,
  };
  const bound = boundSends(client, { projects, ceiling: { limit: 2, windowMs: 1_000 } });
  const send = (projectId: string, mayStart = () => true) =>
    bound.sendMessage({ projectId, jobId: 'job', prompt: 'x', mayStart });
  return { bound, send, posted, read };
}

test('a worker neither reads nor sends for a project that it does not serve', async () => {
  const { bound, send, posted, read } = boundClient(['mine', 'ours']);
  expect(await bound.getJob({ projectId: 'theirs', jobId: 'job' })).toEqual({
    kind: 'failed',
    reason: 'not-served',
    message: 'this worker does not serve project theirs (FOLLOW_UP_PROJECTS)',
  });
  expect(await send('theirs')).toMatchObject({ outcome: 'notSent' });
  await bound.getJob({ projectId: 'mine', jobId: 'job' });
  expect(await send('ours')).toEqual({ outcome: 'sent' });
  expect([read, posted]).toEqual([['mine'], ['ours']]);
});

describe('the ceiling of a worker', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test('limits the messages of each project in a window; a request that never began does not count', async () => {
    const { send, posted } = boundClient();
    await send('p', () => false);
    await send('p');
    vi.advanceTimersByTime(500);
    await Promise.all(Array.from({ length: 5 }, () => send('p')));
    expect(posted).toEqual(['p', 'p']);
    const said = /has sent 2 messages in 1 s to project p.*FOLLOW_UP_BUDGET_MAX_LIMIT/;
    expect(await send('p')).toMatchObject({ outcome: 'notSent', message: expect.stringMatching(said) as string });
    await send('q');
    vi.advanceTimersByTime(500);
    await send('p');
    await send('p');
    expect(posted).toEqual(['p', 'p', 'q', 'p']);
  });

  test('lets no more messages through after a step of the wall clock', async () => {
    const { send, posted } = boundClient();
    await Promise.all([send('p'), send('p')]);
    vi.setSystemTime(Date.now() + 3_600_000);
    expect(await send('p')).toMatchObject({ outcome: 'notSent' });
    vi.setSystemTime(Date.now() - 7_200_000);
    vi.advanceTimersByTime(1_000);
    expect(await send('p')).toEqual({ outcome: 'sent' });
    expect(posted).toEqual(['p', 'p', 'p']);
  });
});
