import { expect, test } from 'vitest';
import { iso } from '../../src/common/index.js';
import { readWatchResult } from '../../src/follow-up/judge.js';
import { readSendResult, readSlotResult, type SendRequest } from '../../src/follow-up/port.js';
import { granted, rest, START_MS } from './support.js';

const observation = {
  polls: 1,
  nextPollAt: iso(START_MS),
  observedActive: true,
  intervalMs: 5_000,
  job: rest,
  lastError: '5',
};
const asked = { kind: 'asked', jobBefore: rest, reply: granted()() } as const;

test('what activities report is taken as it is', () => {
  const ended = { kind: 'ended', job: { ...rest, status: 'completed', turn: 2 }, observation };
  for (const result of [ended, { kind: 'trouble', trouble: null, observation }, { kind: 'deadline', observation }]) {
    expect(readWatchResult(result)).toBe(result);
  }
  expect(readSlotResult(asked)).toBe(asked);
});

test.each([
  [readWatchResult, null],
  [readWatchResult, { kind: 'ended', observation }],
  [readWatchResult, { kind: 'ended', job: { ...rest, status: 'active' }, observation }],
  [readWatchResult, { kind: 'trouble', trouble: {}, observation }],
  [readWatchResult, { kind: 'deadline', observation: { ...observation, nextPollAt: 'soon' } }],
  [readSlotResult, {}],
  [readSlotResult, { ...asked, reply: { kind: 'granted' } }],
  [readSlotResult, { ...asked, reply: { ...granted()(), grantedAtMs: 'now' } }],
  [readSlotResult, { ...asked, jobBefore: { status: 5 } }],
  [readSlotResult, { kind: 'notFound' }],
])('%o takes %j for nothing: it was typed by hand', (read, result) => {
  expect(read(result)).toBeUndefined();
});

test('a send that does not name its grant says nothing', () => {
  const order = { grant: { runId: 'run', sendNumber: 2 } } as SendRequest;
  const own = { grant: 'run/2', outcome: 'notSent' };
  expect(readSendResult(own, order)).toBe(own);
  for (const result of [null, {}, { outcome: 'notSent' }, { ...own, grant: 'run/1' }, { ...own, outcome: 'fine' }]) {
    expect(readSendResult(result, order)).toMatchObject({ grant: 'run/2', outcome: 'unknown' });
  }
});
