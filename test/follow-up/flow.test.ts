import { describe, expect, it } from 'vitest';
import { iso } from '../../src/common/index.js';
import type { Delivered } from '../../src/contract/index.js';
import { fingerprint } from '../../src/protocol/index.js';
import { DAY, SECOND } from '../support/times.js';
import {
  archived,
  done,
  full,
  granted,
  LEASE_MS,
  noReply,
  notFound,
  notSent,
  outcomeUnknown,
  OVER_MS,
  rest,
  Scene,
  type Script,
  START_MS,
  useVirtualTime,
  waiting,
  waitingToWatch,
  working,
} from './support.js';

useVirtualTime();

describe('a follow-up', () => {
  const job = { projectId: 'p', jobId: 'j', whenActive: 'wait' };

  it('asks, sends, reports the outcome, watches the turn and reports its end', async () => {
    const scene = new Scene();
    await scene.end();
    expect(scene.calls).toEqual(['ask 1', 'send 1', 'report 1 sent', 'watch end', 'end']);
    expect(scene.shown).toEqual(['sending', 'polling', 'completed']);
  });

  it('returns how the turn ended, and how the message was delivered', async () => {
    const scene = new Scene();
    expect(await scene.end()).toEqual({
      ...{ projectId: 'p', jobId: 'j', status: 'completed', prLink: 'https://git/2', prLinkChanged: true },
      ...{ delivery: 'sent', observedActive: true, sentAt: iso(START_MS), finishedAt: iso(Date.now()) },
      ...{ polls: 5, job: done },
    });
  });

  it('asks for its first send', async () => {
    const scene = new Scene();
    await scene.end();
    const ask = { sendNumber: 1, lane: 'interactive', mayHaveSent: false, startedAtMs: START_MS };
    expect(scene.asked[0]?.request).toMatchObject({ ...job, isInDoubt: false, ask });
  });

  it('sends the prompt with its grant, and with the job as it was before the ask', async () => {
    const scene = new Scene();
    await scene.end();
    const grant = { runId: 'run', sendNumber: 1, grantedAtMs: START_MS, leaseMs: LEASE_MS };
    expect(scene.sent[0]?.request).toEqual({ ...job, prompt: 'go on', jobBefore: rest, grant });
  });

  it('reports when its message was sent, and how its turn ended', async () => {
    const scene = new Scene();
    await scene.end();
    expect(scene.reports).toEqual([
      { kind: 'outcome', runId: 'run', sendNumber: 1, outcome: 'sent', atMs: START_MS },
      { kind: 'end', jobAtEnd: fingerprint(done) },
    ]);
  });
});

describe('a follow-up that fails before any reply', () => {
  it.each([
    ['yes', 'has delivered it'],
    ['unknown', 'may have delivered it'],
    ['no', 'before the message was sent'],
  ] as const)('asks the budget whether another run has delivered the message: %s', async (delivered, message) => {
    const scene = new Scene({ asks: [archived], wasDelivered: delivered });
    const end = await scene.end();
    expect(end).toMatchObject({ type: 'JobArchived', delivered, message: expect.stringContaining(message) });
    expect(scene.calls).toEqual(['ask 1', 'was it delivered?', 'next task', 'end']);
  });

  it('leaves the delivery unknown if the budget replies to no question', async () => {
    const scene = new Scene({ asks: [archived], wasDelivered: 'noReply' });
    const message = expect.stringContaining('may have delivered it');
    expect(await scene.end()).toMatchObject({ type: 'JobArchived', delivered: 'unknown', message });
    expect(scene.calls).toEqual(['ask 1', 'was it delivered?', 'next task', 'end']);
  });

  it('asks the budget what another run has delivered also after a cancel', async () => {
    const scene = new Scene({ asks: [notFound], job: () => notFound, wasDelivered: 'yes' });
    await scene.advance(10 * SECOND);
    scene.flow.cancel();
    expect(await scene.end()).toMatchObject({ type: 'Cancelled', delivered: 'yes' });
  });
});

describe('a cancel', () => {
  it.each<[moment: string, script: Script, delivered: Delivered]>([
    ['while the server repeats an ask', { asks: [noReply()] }, 'no'],
    ['in line', { asks: [waiting()] }, 'no'],
    ['while the job works on another message', { asks: [waitingToWatch], job: () => working }, 'no'],
    ['between two reads of a job that is not found', { asks: [notFound] }, 'no'],
    ['before another send', { sends: [notSent] }, 'no'],
    ['after the send', {}, 'yes'],
  ])('ends a follow-up at once %s', async (_moment, script, delivered) => {
    const scene = new Scene(script);
    await scene.advance(SECOND / 2);
    scene.flow.cancel();
    expect(await scene.end()).toMatchObject({ type: 'Cancelled', delivered });
    expect(scene.elapsedMs()).toBe(SECOND / 2);
    expect(scene.shown.at(-1)).toBe('cancelled');
  });

  it('ends a follow-up at once while it looks for evidence of its send', async () => {
    const scene = new Scene({ sends: [outcomeUnknown], job: () => rest });
    await scene.advance(SECOND / 2);
    scene.flow.cancel();
    expect(await scene.end()).toMatchObject({ type: 'Cancelled', delivered: 'unknown' });
    expect(scene.elapsedMs()).toBe(SECOND / 2);
    expect(scene.shown.at(-1)).toBe('delivery-unknown');
  });

  it.each([
    ['sent', 'yes', 'cancelled'],
    ['notSent', 'no', 'cancelled'],
    ['unknown', 'unknown', 'delivery-unknown'],
  ] as const)('waits for the outcome of a send: %s', async (outcome, delivered, state) => {
    const scene = new Scene({ sends: [{ outcome, afterMs: SECOND }] });
    await scene.advance(SECOND / 2);
    scene.flow.cancel();
    expect(await scene.end()).toMatchObject({ type: 'Cancelled', delivered });
    expect(scene.elapsedMs()).toBe(SECOND);
    expect(scene.shown.at(-1)).toBe(state);
  });

  it.each<[tries: string, script: Script]>([
    ['sends that never start', { asks: () => granted(), sends: () => notSent }],
    ['watches that are ended by hand', { job: 'endedByHand' }],
    ['asks that are ended by hand', { asks: () => ({ kind: 'endedByHand' }) }],
  ])('ends a follow-up at once after five days of %s', async (_tries, script) => {
    const scene = new Scene(script, { jobTimeoutMs: 6 * DAY });
    await scene.advance(5 * DAY);
    scene.flow.cancel();
    expect(await scene.end()).toMatchObject({ type: 'Cancelled' });
    expect(scene.elapsedMs()).toBe(5 * DAY);
  });

  it('sends nothing for a grant that comes with it, which the end returns', async () => {
    const scene: Scene = new Scene({
      asks: (_request, count) => {
        if (count === 1) return full();
        scene.flow.cancel();
        return granted();
      },
    });
    expect(await scene.end()).toMatchObject({ type: 'Cancelled', delivered: 'no' });
    expect(scene.calls).toEqual(['ask 1', 'ask 1', 'next task', 'end']);
  });

  it('keeps the turn of a message until the settle time after it arrived', async () => {
    const scene = new Scene();
    await scene.advance(SECOND);
    scene.flow.cancel();
    await scene.end();
    expect(scene.reports.at(-1)).toEqual({ kind: 'end', turnUntilMs: START_MS + 120_000 });
  });

  it('keeps the turn of an unknown delivery until the settle time after the last byte can arrive', async () => {
    const scene = new Scene({ sends: [outcomeUnknown], job: () => rest });
    await scene.advance(SECOND);
    scene.flow.cancel();
    await scene.end();
    expect(scene.reports.at(-1)).toEqual({ kind: 'end', turnUntilMs: START_MS + OVER_MS + 120_000 });
  });
});
