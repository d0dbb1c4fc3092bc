import { describe, expect, test } from 'vitest';
import type { FollowUpProgress } from '../../src/contract/index.js';
import { describeBudgetWait, describeProgress } from '../../src/follow-up/details.js';

const nowMs = Date.UTC(2026, 0, 1, 12, 0, 0);
const at = (minutes: number) => new Date(nowMs + minutes * 60_000).toISOString();
const ID = 'follow-up/shop/login/k';
const facts = { projectId: 'shop', jobId: 'login', learnedAt: at(0), polls: 0 };
const unsent = { ...facts, waitsUntil: at(7 * 24 * 60) };
const sent = { ...facts, sentAt: at(-2), delivery: 'sent', polls: 3, waitsUntil: at(24 * 60 - 2) } as const;
const before = { status: 'completed', prLink: 'https://git.example/pull/1' };
const seenBefore = { job: before, jobSeenAt: at(-1) };
const done = {
  job: { status: 'completed', prLink: 'https://git.example/pull/2' },
  jobSeenAt: at(0),
  jobStatus: 'completed',
  prLink: 'https://git.example/pull/2',
};
const failed = (delivered: 'yes' | 'no' | 'unknown', type: string, message: string) =>
  ({ failure: { type, message, delivered } }) as { failure: NonNullable<FollowUpProgress['failure']> };

const details = (progress: object) => describeProgress(progress as FollowUpProgress, ID, nowMs);

/** The text of each state, without the last line, which gives the time. */
const states: [what: string, progress: object, text: string][] = [
  [
    'waits for its slot',
    { ...unsent, state: 'waiting-for-budget', waitReason: 'slot', position: 7, expectedSendAt: at(40), ...seenBefore },
    `**waiting for a slot of project shop**

- message: not sent yet
- position: 7 at its last ask
- send expected: 12:40:00 UTC
- job before this message: \`completed\`, seen 11:59:00 UTC
- gives up: 2026-01-08 12:00:00 UTC
- to do: nothing. Its position now: \`follow-up status ${ID}\`. To cancel it: \`follow-up cancel ${ID}\``,
  ],
  [
    'waits for its job',
    { ...unsent, state: 'waiting-for-job', waitReason: 'job-busy', nextTryAt: at(1) },
    `**waiting for the job: another turn is under way**

- message: not sent yet
- tries again: 12:01:00 UTC at the latest
- gives up: 2026-01-08 12:00:00 UTC
- to do: nothing: it is sent when the job is at rest. To look now: \`follow-up poll-now ${ID}\``,
  ],
  [
    'is being sent',
    { ...unsent, state: 'sending' },
    '**sending**\n\n- message: on its way\n- gives up: 2026-01-08 12:00:00 UTC',
  ],
  [
    'is sent again after an unknown outcome',
    { ...unsent, state: 'sending', earlierSendUnknown: true },
    `**sending**

- message: sent before, but its delivery is unknown; it will be sent again
- gives up: 2026-01-08 12:00:00 UTC`,
  ],
  [
    'finds out whether it was delivered',
    {
      ...facts,
      state: 'reconciling',
      nextPollAt: at(1),
      waitsUntil: at(3),
      lastError: { at: at(-1), message: 'the connection was reset' },
    },
    `**reconciling: finding out whether the message was delivered**

- message: **not known** whether it was delivered
- last error: \`the connection was reset\`, 11:59:00 UTC
- next poll: 12:01:00 UTC
- decides: 12:03:00 UTC
- to do: look at the job. If the message is there: \`follow-up resolve ${ID} sent\`. If it is not: \`follow-up resolve ${ID} notSent\`, which sends it again`,
  ],
  [
    'is polled',
    { ...sent, state: 'polling', nextPollAt: at(1), job: { status: 'active' }, jobSeenAt: at(0), jobStatus: 'active' },
    `**sent, waiting for the agent**

- message: delivered 11:58:00 UTC, 3 polls since
- job: \`active\`, seen 12:00:00 UTC
- pull request: none
- polls: continue from 12:01:00 UTC; this line changes when they find something new
- gives up: 2026-01-02 11:58:00 UTC
- to do: nothing. The latest poll: \`follow-up status ${ID}\`. To look now: \`follow-up poll-now ${ID}\``,
  ],
  [
    'has completed',
    { ...sent, waitsUntil: undefined, state: 'completed', ...done },
    `**completed**

- message: delivered 11:58:00 UTC, 3 polls since
- job: \`completed\`, seen 12:00:00 UTC
- pull request: <https://git.example/pull/2>`,
  ],
  [
    'was archived, and whose delivery only the job shows',
    { ...facts, sentAt: at(-2), delivery: 'inferred', polls: 1, state: 'archived' },
    '**archived**\n\n- message: delivered 11:58:00 UTC (the job shows it), 1 poll since',
  ],
  [
    'has a job that failed',
    { ...facts, sentAt: at(-2), delivery: 'assumed', polls: 2, state: 'job-failed', failure: null },
    `**job-failed: the message was delivered, and the agent job failed**

- message: assumed delivered 11:58:00 UTC, 2 polls since
- to do: look at the job. A new message: \`follow-up send shop login --prompt …\``,
  ],
  [
    'was not sent',
    { ...facts, state: 'not-sent', ...failed('no', 'MessageRejected', 'The service refused the message: no') },
    `**not-sent: the message was not delivered**

- message: not delivered
- why: \`MessageRejected: The service refused the message: no\`
- to do: to send it after all: \`follow-up send shop login --prompt …\``,
  ],
  [
    'ended with its delivery unknown',
    { ...facts, state: 'delivery-unknown', ...failed('unknown', 'DeliveryUnknown', 'It cannot be told') },
    `**delivery-unknown: the message was perhaps delivered**

- message: **not known** whether it was delivered
- why: \`DeliveryUnknown: It cannot be told\`
- to do: look at the job. If the message is not there, send it again: \`follow-up send shop login --prompt …\``,
  ],
  [
    'was cancelled after its send',
    { ...facts, state: 'cancelled', sentAt: at(-2), ...failed('yes', 'Cancelled', 'Cancelled after the send') },
    `**cancelled: the message was delivered**

- message: delivered
- why: \`Cancelled: Cancelled after the send\`
- to do: look at the job. A new message: \`follow-up send shop login --prompt …\``,
  ],
  [
    'did not end in time',
    { ...facts, state: 'timed-out', ...failed('yes', 'JobTimeout', 'The job did not end within 24 h') },
    `**timed-out: the message was delivered**

- message: delivered
- why: \`JobTimeout: The job did not end within 24 h\`
- to do: look at the job, which may still be at work. A new message waits for it: \`follow-up send shop login --prompt …\``,
  ],
];

describe('the current details of a follow-up', () => {
  test.each(states)(
    'say what it does, whether the message was delivered, and what to do when it %s',
    (_what, progress, text) => {
      expect(details(progress)).toBe(`${text}\n\n_As of 2026-01-01 12:00:00 UTC._`);
    },
  );

  const blocks: [reason: string, more: object, headline: string, step: string][] = [
    [
      'paused',
      { pause: { by: 'operator', until: at(30), note: 'release `freeze`' } },
      'project shop is paused by an operator until 12:30:00 UTC (`release  freeze `)',
      '`follow-up budget resume shop`, if the pause is no longer wanted',
    ],
    [
      'paused',
      { pause: { by: 'operator' } },
      'project shop is paused by an operator until it is resumed',
      '`follow-up budget resume shop`, if',
    ],
    [
      'paused',
      { pause: { by: 'service', until: at(1) } },
      'the service refuses more messages of project shop, until 12:01:00 UTC',
      'nothing: it continues by itself. To try at once: `follow-up budget resume shop`',
    ],
    [
      'credentials',
      {},
      'the service refuses the API key of project shop, or there is none',
      'give the workers a valid key for the project; it continues within 15 minutes, or at once with `follow-up budget resume shop`',
    ],
    [
      'credentials',
      sent,
      'the service refuses the API key of project shop, or there is none',
      'give the workers a valid key for the project; it continues by itself',
    ],
    ['queue-full', {}, 'the queue of project shop is full', 'nothing: it asks for a place again by itself'],
    ['gate-stopped', {}, 'the budget of project shop was stopped', '`follow-up budget restore shop`'],
    [
      'budget-silent',
      {},
      'the budget of project shop does not answer',
      '`follow-up doctor` says what keeps `project-budget/shop` from answering',
    ],
    [
      'service',
      {},
      'the job cannot be read',
      'fix the agent job service or the connection to it; it continues by itself',
    ],
  ];
  test.each(blocks)('say why it is blocked and what to do: %s %j', (waitReason, more, headline, step) => {
    const lines = details({ ...unsent, state: 'blocked', waitReason, nextTryAt: at(1), ...more }).split('\n');
    expect(lines[0]).toBe(`**blocked: ${headline}**`);
    const tries = 'sentAt' in more ? 'from 12:01:00 UTC on, with growing pauses' : '12:01:00 UTC at the latest';
    expect(lines).toContain(`- tries again: ${tries}`);
    expect(lines).toContain(
      'sentAt' in more ? '- message: delivered 11:58:00 UTC, 3 polls since' : '- message: not sent yet',
    );
    expect(lines.find((line) => line.startsWith('- to do: '))).toContain(`- to do: ${step}`);
  });

  const endings: [type: string, step: string][] = [
    ['InvalidInput', 'correct the input, and start it again; its key is free'],
    ['JobNotFound', 'check the ids of the project and the job'],
    ['JobArchived', 'nothing: an archived job takes no message'],
    ['Closed', 'its key is used up. With a new one: `follow-up send shop login --prompt …`'],
    ['BudgetWaitTimeout', 'to send it after all: `follow-up send shop login --prompt …`'],
  ];
  test.each(endings)('say what to do when it ended unsent with %s', (type, step) => {
    expect(details({ ...facts, state: 'not-sent', ...failed('no', type, 'words') })).toContain(`- to do: ${step}`);
  });

  test('do not present the end and the pull request of the previous turn as its own', () => {
    const text = details({ ...unsent, state: 'sending', ...seenBefore });
    expect(text).toContain('job before this message: `completed`');
    expect(text).not.toContain('pull/1');
  });

  test('link a pull request only if its address is plain', () => {
    const linked = (prLink: string) => details({ ...sent, state: 'polling', job: { ...before, prLink }, prLink });
    expect(linked('https://git.example/pull/1')).toContain('<https://git.example/pull/1>');
    for (const hostile of ['javascript:alert(1)', 'https://x/<script>', 'https://x/`](y)', 'https://x y']) {
      expect(linked(hostile)).not.toContain(`<${hostile}>`);
      expect(linked(hostile)).toContain('`');
    }
  });
});

test('a timer that waits for the budget shows the position and the expected time', () => {
  expect(describeBudgetWait('slot', 7, 40 * 60_000, nowMs)).toBe('budget: position 7, about 12:40:00 UTC');
  expect(describeBudgetWait('slot', 7, 13 * 3_600_000, nowMs)).toBe(
    'budget: position 7, about 2026-01-02 01:00:00 UTC',
  );
  expect(describeBudgetWait('slot', 7, null, nowMs)).toBe('budget: position 7');
  expect(describeBudgetWait('credentials', 1, null, nowMs)).toBe('budget: credentials');
});
