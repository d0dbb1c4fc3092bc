import { describe, expect, test } from 'vitest';
import { readSendResult, readSlotAnswer, type SendOrder } from '../../src/follow-up/port.js';
import { iso } from '../../src/contract/durations.js';
import { readWatchResult, type WatchResult } from '../../src/follow-up/watch.js';
import { granted, rest, START_MS } from './support.js';

const seen = { polls: 1, nextPollAt: iso(START_MS), observedActive: true, intervalMs: 5_000 };

describe('what a watch reported', () => {
  test.each<WatchResult>([
    {
      kind: 'ended',
      job: { ...rest, status: 'completed', turn: 2 },
      seen: { ...seen, job: rest, lastError: 'HTTP 500' },
    },
    { kind: 'rest', job: {}, seen },
    { kind: 'gone', message: 'HTTP 404', seen },
    { kind: 'deadline', seen },
    { kind: 'trouble', trouble: null, seen },
  ])('is taken as it is: $kind', (result) => {
    expect(readWatchResult(result)).toBe(result);
  });

  test.each([
    undefined,
    null,
    {},
    'text',
    { kind: 'ended', seen },
    { kind: 'ended', job: { ...rest, status: 'active' }, seen },
    { kind: 'ended', job: { ...rest, prLink: 5 }, seen },
    { kind: 'rest', job: null, seen },
    { kind: 'trouble', trouble: {}, seen },
    { kind: 'deadline', seen: { ...seen, lastError: 5 } },
    { kind: 'deadline', seen: { ...seen, nextPollAt: 'soon' } },
    { kind: 'rubbish', seen },
  ])('counts as nothing where it was typed by hand: %j', (result) => {
    expect(readWatchResult(result)).toBeUndefined();
  });
});

describe('the answer of an ask', () => {
  test('is taken as it is', () => {
    const answer = { kind: 'asked', baseline: rest, answer: granted()() } as const;
    expect(readSlotAnswer(answer)).toBe(answer);
  });

  test.each([
    null,
    {},
    { kind: 'asked', baseline: rest },
    { kind: 'asked', baseline: rest, answer: { kind: 'granted' } },
    { kind: 'asked', baseline: rest, answer: { ...granted()(), grantedAtMs: 'now' } },
    { kind: 'asked', baseline: { status: 5 }, answer: granted()() },
    { kind: 'notFound' },
  ])('counts as nothing where it was typed by hand: %j', (answer) => {
    expect(readSlotAnswer(answer)).toBeUndefined();
  });
});

test('a send that does not name its grant says nothing', () => {
  const order = { grant: { runId: 'run', sendNumber: 2 } } as SendOrder;
  const own = { grant: 'run/2', outcome: 'notSent' };
  expect(readSendResult(own, order)).toBe(own);
  for (const result of [null, {}, { outcome: 'notSent' }, { ...own, grant: 'run/1' }, { ...own, outcome: 'fine' }]) {
    expect(readSendResult(result, order)).toMatchObject({ grant: 'run/2', outcome: 'unknown' });
  }
});
