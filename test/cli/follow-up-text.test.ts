import { describe, expect, test } from 'vitest';
import type { FollowUpUpdate, LiveProgress } from '../../src/client/index.js';
import { cellsOf, describeUpdate } from '../../src/cli/follow-up.js';
import { plainText, safeJson, safeLine } from '../../src/terminal-text.js';
import type { FollowUpStanding } from '../../src/contract/index.js';

const summary: FollowUpUpdate['summary'] = {
  workflowId: 'follow-up/p/j/k',
  projectId: 'p',
  jobId: 'j',
  key: 'k',
  status: 'running',
  startedAt: '2026-01-02T03:04:05.000Z',
};
const facts = { projectId: 'p', jobId: 'j', learnedAt: '2026-01-02T03:04:05.000Z', polls: 0 };
const progress = (more: Partial<LiveProgress> & FollowUpStanding): FollowUpUpdate => ({
  summary,
  progress: { ...facts, ...more },
});
const TIME = String.raw`\d\d:\d\d:\d\d [+-]\d\d:\d\d`;

describe('the text of a follow-up', () => {
  test('that waits gives its position and when its send is expected', () => {
    const text = describeUpdate(
      progress({
        state: 'waiting-for-budget',
        waitReason: 'slot',
        position: 3,
        expectedSendAt: new Date().toISOString(),
      }),
    );
    expect(text.headline).toBe('waiting for a slot of project p, position 3');
    expect(text.timing).toMatch(new RegExp(`^send expected ${TIME}$`));
  });

  test('whose place cannot be confirmed says how old it is', () => {
    const now = new Date().toISOString();
    const text = describeUpdate(
      progress({ state: 'waiting-for-budget', waitReason: 'slot', position: 3, expectedSendAt: now, asOf: now }),
    );
    expect(text.headline).toBe('waiting for a slot of project p, position 3');
    expect(text.timing).toMatch(new RegExp(`^send expected ${TIME}, as of ${TIME}$`));
  });

  test('that is sent gives the job status, the number of polls and the next poll', () => {
    const now = new Date().toISOString();
    const text = describeUpdate(
      progress({ state: 'polling', sentAt: now, polls: 2, nextPollAt: now, jobStatus: 'active' }),
    );
    expect(text.headline).toBe('sent, waiting for the agent, job active');
    expect(text.timing).toMatch(new RegExp(`^sent ${TIME}, 2 polls, next poll ${TIME}$`));
  });

  test('does not present the status before the send as news', () => {
    expect(describeUpdate(progress({ state: 'sending', job: { status: 'completed' } })).headline).toBe('sending');
  });

  test('that waits for its job gives the status that keeps it waiting', () => {
    const text = describeUpdate(
      progress({ state: 'waiting-for-job', waitReason: 'job-busy', job: { status: 'COMPLETED' } }),
    );
    expect(text.headline).toBe('waiting for the job: another turn is under way, job COMPLETED');
  });

  test('that is blocked says by what, and gives the last error', () => {
    const lastError = { at: '2026-01-02T03:04:05Z', message: 'HTTP 401:\n\u001b[31mno' };
    const text = describeUpdate(progress({ state: 'blocked', waitReason: 'credentials', lastError }));
    expect(text.headline).toBe('blocked: the service refuses the API key, or there is none, last error: HTTP 401: no');
  });

  test('that cannot ask its budget says when it tries again', () => {
    const now = new Date().toISOString();
    const { headline, timing } = describeUpdate(progress({ state: 'blocked', waitReason: 'service', nextTryAt: now }));
    expect(headline).toBe('blocked: the job cannot be read');
    expect(timing).toMatch(new RegExp(`^tries again ${TIME}$`));
  });

  test('that the service holds up says when it tries again', () => {
    const pause = { by: 'service', until: new Date().toISOString() } as const;
    const { timing } = describeUpdate(progress({ state: 'blocked', waitReason: 'limited', pause }));
    expect(timing).toMatch(new RegExp(`^tries again ${TIME}$`));
  });

  test('that cannot read its job after the send is still sent', () => {
    const text = describeUpdate(
      progress({ state: 'polling', waitReason: 'service', sentAt: new Date().toISOString() }),
    );
    expect(text.headline).toBe('sent, waiting for the agent, but the job cannot be read');
  });

  test.each([
    ['paused', { by: 'operator', note: 'freeze' }, 'the project is paused by an operator until it is resumed (freeze)'],
    ['limited', { by: 'service', until: '2026-01-02T03:04:05Z' }, 'the service refuses more messages (429), '],
    ['counting', undefined, "the project's budget counts what was sent before it started"],
  ] as const)('that is blocked because of %s says so, with its position', (waitReason, pause, why) => {
    const text = describeUpdate(progress({ state: 'blocked', waitReason, position: 2, ...(pause && { pause }) }));
    expect(text.headline).toContain(`blocked: ${why}`);
    expect(text.headline).toMatch(/, position 2$/);
  });

  test('without a worker says what Temporal itself knows', () => {
    const known = { ...summary, state: 'polling' as const, jobStatus: 'active' };
    const text = describeUpdate({ summary: known, progressUnavailable: 'no worker runs' });
    expect(text.headline).toBe('progress unavailable: no worker runs; last known: polling, job active');
  });

  test('that failed gives its state and the reason', () => {
    const failure = { type: 'DeliveryUnknown', message: 'It cannot be told', delivered: 'unknown' } as const;
    const text = describeUpdate(progress({ state: 'delivery-unknown', failure }));
    expect(text.headline).toBe(
      'delivery-unknown: the message was perhaps delivered, DeliveryUnknown: It cannot be told',
    );
  });
});

test('a row of the list has the local start time, the state or Temporal’s status, the job and the pull request', () => {
  const listed = { ...summary, state: 'waiting-for-budget' as const };
  const prLink = 'https://git.example/pull/2';
  expect(cellsOf({ ...listed, state: 'polling', jobStatus: 'active', prLink })).toEqual([
    expect.stringMatching(new RegExp(`^2026-01-0\\d ${TIME}$`)),
    ...['polling', 'active', 'follow-up/p/j/k', prLink],
  ]);
  expect(cellsOf({ ...listed, status: 'failed', state: 'delivery-unknown' })[1]).toBe('delivery-unknown');
  expect(cellsOf({ ...listed, status: 'terminated' })[1]).toBe('terminated');
});

test('text for a terminal keeps its lines and loses its control characters', () => {
  expect(plainText('a\n\tb\u001b[2J\u009b31m\u0007\u202ec')).toBe('a\n\tbc');
  expect(safeLine(' a\r\nb\u001b]0;t\u0007 ')).toBe('a b');
});

test.each([
  ['a link', '\u001b]8;;https://evil.example\u001b\\text\u001b]8;;\u001b\\', 'text'],
  ['colours of 256 and of 16 million', '\u001b[38;5;1mred\u001b[48;2;1;2;3m\u001b[0m', 'red'],
  ['a character set', '\u001b(0lqk\u001b(B', 'lqk'],
  ['a string between one-byte controls', 'a\u0090q#0;2;0;0;0\u009cb', 'ab'],
  ['a string without an end, whose text stays', 'a\u009dtext', 'atext'],
  ['a string in a string', '\u001b]0;\u001b]0;t\u0007b', '0;b'],
  ['a sequence without an end', 'text\u001b[1;2', 'text'],
  ['ESC at the end', 'text\u001b', 'text'],
])('a terminal never gets %s', (_what, text, plain) => {
  expect(plainText(text)).toBe(plain);
});

// If the time grew with the square of the length, some of these would take an hour.
test.each([
  '\u001b;#',
  ';#',
  '\u001b]',
  '\u009d',
  '\u009da',
  '\u001b[',
  '\u009b1;',
  '\u001b(',
  '\u001b]a\u001b',
  '\u0090\u009b',
])('megabytes of %j after ESC are cleaned at once', (part) => {
  const text = `\u001b${part.repeat(300_000)}`;
  // eslint-disable-next-line no-control-regex -- the text must not contain these
  expect(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/.test(plainText(text))).toBe(false);
});

test('JSON keeps every character, and escapes those that control the terminal', () => {
  const value = { text: '\u001b[2J\u009b31m\u007f\u0000ü' };
  const json = safeJson(value);
  // eslint-disable-next-line no-control-regex -- the text must not contain these
  expect(json).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
  expect(JSON.parse(json)).toEqual(value);
});
