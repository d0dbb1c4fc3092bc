import { expect, test } from 'vitest';
import { cellsOf, describeEnd, describeUpdate, summariseUpdate } from '../../src/cli/follow-up-commands.js';
import { toLines } from '../../src/cli/lines.js';
import type { FollowUpUpdate, LiveProgress } from '../../src/client/index.js';
import type { FollowUpStanding } from '../../src/contract/index.js';
import { plainText, safeJson, safeLine } from '../../src/node/terminal-text.js';
import { timeless } from './run-cli.js';

const at = '2026-01-02T03:04:05.000Z';
const soon = '2126-01-02T03:04:05.000Z';
const ids = { workflowId: 'follow-up/p/j/k', projectId: 'p', jobId: 'j', key: 'k' };
const summary: FollowUpUpdate['summary'] = { ...ids, status: 'running', startedAt: at };
const lastError = { at, message: 'HTTP 401:\n\u001b[31mno' };

test.each<[what: string, more: Partial<LiveProgress> & FollowUpStanding, headline: string, timing: string]>([
  [
    'waits for a slot',
    { state: 'waiting-for-budget', waitReason: 'slot', position: 3, expectedSendAt: soon, asOf: at },
    'waiting for a slot of project p, position 3',
    'send expected TIME, as of TIME',
  ],
  [
    'polls its job',
    { state: 'polling', sentAt: at, polls: 2, nextPollAt: soon, jobStatus: 'active' },
    'sent TIME, waiting for the agent, job active',
    'polls 2, next poll TIME',
  ],
  // The status before the send is no news.
  ['is being sent', { state: 'sending', job: { status: 'completed' } }, 'sending', ''],
  [
    'waits for another turn of its job',
    { state: 'waiting-for-job', waitReason: 'job-busy', job: { status: 'COMPLETED' } },
    'waiting for the job: another turn is in progress, job COMPLETED',
    '',
  ],
  [
    'is blocked by a wrong API key',
    { state: 'blocked', waitReason: 'credentials', lastError, nextTryAt: soon },
    'blocked: the service answers 401 or 403, or the project has no API key, last error: HTTP 401: no',
    'asks again TIME',
  ],
  [
    'is blocked because the service refuses its message alone',
    { state: 'blocked', waitReason: 'credentials', lastError, pause: { by: 'message', until: soon } },
    'blocked: the service answers 401 or 403 to this message, but accepts others, last error: HTTP 401: no',
    'tries again TIME or later',
  ],
  [
    'is blocked by a pause of an operator',
    { state: 'blocked', waitReason: 'paused', position: 2, pause: { by: 'operator', note: 'freeze' } },
    'blocked: the project is paused by an operator until it is resumed (freeze), position 2',
    '',
  ],
  [
    'ended with an unknown delivery',
    {
      state: 'delivery-unknown',
      failure: { type: 'DeliveryUnknown', message: 'It cannot be told', delivered: 'unknown' },
    },
    'delivery-unknown: the message was possibly delivered',
    '',
  ],
])('the text shows that a follow-up %s', (_what, more, headline, timing) => {
  const progress = { projectId: 'p', jobId: 'j', learnedAt: at, polls: 0, ...more };
  const text = summariseUpdate({ summary, progress });
  expect([timeless(text.headline), timeless(text.timing)]).toEqual([headline, timing]);
});

const columnsOf = (progress: LiveProgress) => timeless(toLines(describeUpdate({ summary, progress })).join('\n'));
const facts = { projectId: 'p', jobId: 'j', learnedAt: at };

test('the columns of a follow-up have its delivery, polls, job, pull request, last error, end and what to do', () => {
  const job = { status: 'active', prLink: 'https://x/1' };
  const sent = { ...facts, state: 'polling', delivery: 'sent', sentAt: at, polls: 2, nextPollAt: soon } as const;
  const seen = { job, jobSeenAt: at, jobStatus: 'active', prLink: job.prLink, lastError, waitsUntil: soon };
  expect(columnsOf({ ...sent, ...seen })).toMatchInlineSnapshot(`
    "sent TIME, waiting for the agent, job active
    message       delivered TIME
    polls         2
    next poll     TIME
    job           active, seen TIME
    pull request  https://x/1
    last error    HTTP 401: no, TIME
    gives up      TIME
    to do         no action is needed
                  to poll now: follow-up poll-now follow-up/p/j/k"
  `);
});

test('the columns of a follow-up with an unknown delivery say why, and what to do in either case', () => {
  const failure = { type: 'DeliveryUnknown', message: 'It cannot be told', delivered: 'unknown' } as const;
  expect(columnsOf({ ...facts, polls: 0, state: 'delivery-unknown', failure })).toMatchInlineSnapshot(`
    "delivery-unknown: the message was possibly delivered
    message  possibly delivered
    why      DeliveryUnknown: It cannot be told
    to do    look at the job
             if the message is not there, send it again: follow-up send p j --prompt …"
  `);
  expect(columnsOf({ ...facts, polls: 0, state: 'reconciling', waitsUntil: soon })).toMatchInlineSnapshot(`
    "reconciling: finding out whether the message was delivered
    message  possibly delivered
    decides  TIME
    to do    look at the job
             if the message is there: follow-up resolve follow-up/p/j/k sent
             if it is not: follow-up resolve follow-up/p/j/k notSent, which sends it again"
  `);
});

test('a follow-up without a readable result or a known failure shows its own end or Temporal’s, and advises nothing', () => {
  const error = { message: 'not\u001b[31m\nknown', delivered: 'unknown' } as const;
  const ended = { ...summary, endedAt: at };
  const completed = { ...ended, status: 'completed', state: 'completed' } as const;
  expect(timeless(describeEnd(completed, { type: 'Unexpected', ...error }))).toMatchInlineSnapshot(`
    "completed
    message  possibly delivered
    why      Unexpected: not known
    ended    TIME"
  `);
  const terminated = { ...ended, status: 'terminated', state: 'polling' } as const;
  expect(timeless(describeEnd(terminated, { type: 'Terminated', ...error }))).toMatchInlineSnapshot(`
    "terminated
    message  possibly delivered
    why      Terminated: not known
    ended    TIME"
  `);
  const gone = { type: 'FollowUpNotFound', message: 'gone' };
  expect(timeless(describeEnd(completed, gone))).not.toContain('delivered');
});

test('the text of a follow-up without a worker says what Temporal itself knows', () => {
  const known = { ...summary, state: 'polling' as const, jobStatus: 'active' };
  const { headline } = summariseUpdate({ summary: known, progressUnavailable: 'no worker runs' });
  expect(headline).toBe('progress unavailable: no worker runs; last known: polling, job active');
});

test('a row of the list has the state of a follow-up at its end, or Temporal’s status if it has none', () => {
  const listed = { ...summary, state: 'waiting-for-budget' as const };
  expect(cellsOf({ ...listed, status: 'failed', state: 'delivery-unknown' })[1]).toBe('delivery-unknown');
  expect(cellsOf({ ...listed, status: 'terminated' })[1]).toBe('terminated');
});

test.each([
  ['a\n\tb\u001b[2J\u009b31m\u0007\u202ec', 'a\n\tbc'],
  ['\u001b]8;;https://evil.example\u001b\\text\u001b]8;;\u001b\\', 'text'],
  ['\u001b[38;5;1mred\u001b[48;2;1;2;3m\u001b[0m', 'red'],
  // A character set.
  ['\u001b(0lqk\u001b(B', 'lqk'],
  ['a\u0090q#0;2;0;0;0\u009cb', 'ab'],
  // The text of a string without an end stays.
  ['a\u009dtext', 'atext'],
  ['\u001b]0;\u001b]0;t\u0007b', '0;b'],
  ['text\u001b[1;2', 'text'],
  ['text\u001b', 'text'],
])('the text %j reaches a terminal as %j', (text, plain) => {
  expect(plainText(text)).toBe(plain);
});

test('megabytes of control sequences are removed at once', () => {
  // If the time grew with the square of the length, some of these would take an hour.
  const parts = [
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
  ];
  for (const part of parts)
    // eslint-disable-next-line no-control-regex -- the text must not contain these
    expect(plainText(`\u001b${part.repeat(300_000)}`)).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
});

test('a line has no line breaks, and JSON keeps every character but escapes those that control the terminal', () => {
  expect(safeLine(' a\r\nb\u001b]0;t\u0007 ')).toBe('a b');
  const value = { text: '\u001b[2J\u009b31m\u007f\u0000ü' };
  // eslint-disable-next-line no-control-regex -- the text must not contain these
  expect(safeJson(value)).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
  expect(JSON.parse(safeJson(value))).toEqual(value);
});
