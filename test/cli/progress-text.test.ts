import { describe, expect, test } from 'vitest';
import type { FollowUpUpdate } from '../../src/client/index.js';
import { describeBudget } from '../../src/cli/budget-text.js';
import { describeUpdate } from '../../src/cli/progress-text.js';
import { safeJson, safeLine } from '../../src/cli/safe-text.js';
import { safeText } from '../../src/terminal-text.js';
import type { BudgetStatus, FollowUpProgress } from '../../src/contract/index.js';

const summary: FollowUpUpdate['summary'] = {
  workflowId: 'follow-up/p/j/k',
  projectId: 'p',
  jobId: 'j',
  key: 'k',
  status: 'running',
  startedAt: '2026-01-02T03:04:05.000Z',
};
const progress = (more: Partial<FollowUpProgress>): FollowUpUpdate => ({
  summary,
  progress: { projectId: 'p', jobId: 'j', state: 'polling', polls: 0, ...more },
});

describe('progress in words', () => {
  test('one that waits says its position and when it is expected to be sent', () => {
    const text = describeUpdate(
      progress({ state: 'waiting-for-budget', position: 3, expectedSendAt: new Date().toISOString() }),
    );
    expect(text.headline).toBe('waits for a slot of the project budget, position 3');
    expect(text.timing).toMatch(/^send expected \d\d:\d\d:\d\d$/);
  });

  test('one that is sent says the job status, the polls and the next one', () => {
    const now = new Date().toISOString();
    const text = describeUpdate(progress({ sentAt: now, polls: 2, nextPollAt: now, job: { status: 'active' } }));
    expect(text.headline).toBe('sent, job active');
    expect(text.timing).toMatch(/^sent \S+, 2 polls, next poll \S+$/);
  });

  test('the status that the job had before the send is not shown as news', () => {
    expect(describeUpdate(progress({ state: 'sending', job: { status: 'completed' } })).headline).toBe('sending');
  });

  test('a blocked one says by what, and the last error', () => {
    const lastError = { at: '2026-01-02T03:04:05Z', message: 'HTTP 401:\n\u001b[31mno' };
    const text = describeUpdate(progress({ state: 'blocked', waitReason: 'credentials', lastError }));
    expect(text.headline).toBe('blocked: the service refuses the API key, last error: HTTP 401: no');
  });

  test('without a worker it says what Temporal itself knows', () => {
    const known = { ...summary, state: 'polling' as const, jobStatus: 'active' };
    const text = describeUpdate({ summary: known, progressUnavailable: 'no worker runs' });
    expect(text.headline).toBe('progress unavailable: no worker runs; last known: sent, job active');
  });
});

test('text for a terminal keeps its lines and loses what controls the terminal', () => {
  expect(safeText('a\n\tb\u001b[2J\u009b31m\u0007\u202ec')).toBe('a\n\tbc');
  expect(safeLine(' a\r\nb\u001b]0;t\u0007 ')).toBe('a b');
  expect(safeText('\u001b[38;5;1ma\u001b(Bb\u001b=c\u001b]8;;http://x\u001b\\d\u009d0;t\u009ce\u001b\u001b[1mf')).toBe(
    'abcdef',
  );
  expect(safeText('\u001b]0;without an end\nnext line')).toBe('\nnext line');
});

test('JSON keeps every character, and none that controls the terminal stands as itself', () => {
  const value = { text: '\u001b[2J\u009b31m\u007f\u0000ü' };
  const json = safeJson(value);
  // eslint-disable-next-line no-control-regex -- it is what must not be there
  expect(json).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
  expect(JSON.parse(json)).toEqual(value);
});

test('a budget shows its bar, its pause, its queue and its sends', () => {
  const status: BudgetStatus = {
    projectId: 'p',
    limit: 100,
    windowMs: 3_600_000,
    reserve: 10,
    used: 50,
    unsettled: 1,
    nextFreeSlotAt: new Date().toISOString(),
    paused: { reasons: ['limited'], until: new Date().toISOString() },
    waiting: [
      {
        workflowId: 'follow-up/p/a/k',
        jobId: 'a',
        lane: 'interactive',
        position: 1,
        expectedAt: new Date().toISOString(),
      },
      { workflowId: 'follow-up/p/b/k', jobId: 'b', lane: 'batch' },
    ],
    waitingTotal: 30,
    waitingForJob: 1,
    lastSends: [
      {
        workflowId: 'follow-up/p/c/k',
        jobId: 'c',
        sendNumber: 2,
        grantedAt: new Date().toISOString(),
        outcome: 'sent',
      },
    ],
  };
  const text = describeBudget(status);
  expect(text).toContain(`[${'#'.repeat(20)}${'.'.repeat(20)}] 50 of 100 used in 1 h`);
  expect(text).toMatch(/paused {5}limited, until \d\d:/);
  expect(text).toMatch(/ {5}1 {2}interactive {2}follow-up\/p\/a\/k {2}expected \d\d:/);
  expect(text).toContain('… and 28 more');
  expect(text).toContain('follow-up/p/c/k, send 2');
});
