import { describe, expect, test } from 'vitest';
import { iso } from '../../src/common/index.js';
import { readWatchResult } from '../../src/follow-up/judge.js';
import { readSendResult, readSlotResult, type SendRequest } from '../../src/follow-up/port.js';

// An operator may complete an activity by hand, with any result.

const nowMs = Date.UTC(2026, 0, 5, 12);
const job = { status: 'completed', prLink: 'https://git/1', archivedAt: null };
const watched = { polls: 1, nextPollAt: iso(nowMs), observedActive: true, intervalMs: 5_000 };
const observation = { ...watched, job, lastError: '5' };

describe('the result of a watch', () => {
  test.each([
    ['that the turn has ended', { kind: 'ended', job: { ...job, status: 'completed', turn: 2 }, observation }],
    ['trouble', { kind: 'trouble', trouble: null, observation }],
    ['that its deadline has passed', { kind: 'deadline', observation }],
  ])('is taken unchanged if it reports %s', (_, result) => {
    expect(readWatchResult(result)).toBe(result);
  });

  test.each([
    ['is empty', null],
    ['ends a turn without a job', { kind: 'ended', observation }],
    ['ends a turn with a job at work', { kind: 'ended', job: { ...job, status: 'active' }, observation }],
    ['has trouble without a reason', { kind: 'trouble', trouble: {}, observation }],
    ['has a word as a time', { kind: 'deadline', observation: { ...observation, nextPollAt: 'soon' } }],
  ])('is ignored if it %s', (_, result) => {
    expect(readWatchResult(result)).toBeUndefined();
  });
});

describe('the result of an ask', () => {
  const granted = { kind: 'granted', runId: 'run', sendNumber: 1, grantedAtMs: nowMs, leaseMs: 1, overAtMs: nowMs + 2 };
  const asked = { kind: 'asked', jobBefore: job, reply: granted };

  test('is taken unchanged if it has a job and a reply', () => {
    expect(readSlotResult(asked)).toBe(asked);
  });

  test.each([
    ['is empty', {}],
    ['has a grant without its fields', { ...asked, reply: { kind: 'granted' } }],
    ['has a word as a time', { ...asked, reply: { ...granted, grantedAtMs: 'now' } }],
    ['has a job with an invalid status', { ...asked, jobBefore: { status: 5 } }],
    ['finds no job, but lacks a message', { kind: 'notFound' }],
  ])('is ignored if it %s', (_, result) => {
    expect(readSlotResult(result)).toBeUndefined();
  });
});

describe('the result of a send', () => {
  const request = { grant: { runId: 'run', sendNumber: 2 } } as SendRequest;
  const ofGrant = { grant: 'run/2', outcome: 'notSent' };

  test('is taken unchanged if it names its grant', () => {
    expect(readSendResult(ofGrant, request)).toBe(ofGrant);
  });

  test.each([
    ['is null', null],
    ['is empty', {}],
    ['names no grant', { outcome: 'notSent' }],
    ['names another grant', { ...ofGrant, grant: 'run/1' }],
    ['has an outcome that does not exist', { ...ofGrant, outcome: 'fine' }],
  ])('is an unknown outcome if it %s', (_, result) => {
    expect(readSendResult(result, request)).toMatchObject({ grant: 'run/2', outcome: 'unknown' });
  });
});
