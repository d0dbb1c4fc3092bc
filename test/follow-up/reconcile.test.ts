import { describe, expect, it } from 'vitest';
import { iso } from '../../src/common/index.js';
import type { WatchResult } from '../../src/follow-up/judge.js';
import { MINUTE, SECOND } from '../support/times.js';
import {
  done,
  earlierSend,
  granted,
  grantedAfterRead,
  noReply,
  outcomeUnknown,
  OVER_MS,
  rest,
  Scene,
  START_MS,
  useVirtualTime,
  working,
} from './support.js';

useVirtualTime();

/** No byte of the first send can arrive any more, and the settle time has passed. */
const SETTLED_AFTER_MS = OVER_MS + 120_000;

describe('an unknown delivery', () => {
  it('is inferred from a job at work', async () => {
    const scene = new Scene({ sends: [outcomeUnknown] });
    expect(await scene.end()).toMatchObject({ delivery: 'inferred', observedActive: true, polls: 8 });
    expect(scene.elapsedMs()).toBe(84_687);
  });

  it('is inferred from a job that was seen at work once', async () => {
    const scene = new Scene({ sends: [outcomeUnknown], job: (ms) => (ms < 20 * SECOND ? working : done) });
    expect(await scene.end()).toMatchObject({ delivery: 'inferred', observedActive: true });
  });

  it('is not inferred from a replica that lags', async () => {
    const scene = new Scene({ sends: [outcomeUnknown], job: (ms) => (ms < 8 * SECOND ? working : rest) });
    expect(await scene.end()).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
  });

  it('is not inferred from a job that looks as it did right before the send', async () => {
    const scene = new Scene({ asks: [grantedAfterRead(done)], sends: [outcomeUnknown], job: () => done });
    expect(await scene.end()).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
  });

  it('is not inferred if nobody knows how the job looked right before the send', async () => {
    const scene = new Scene({ asks: [grantedAfterRead({})], sends: [outcomeUnknown] });
    expect(await scene.end()).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
  });

  it('ends the follow-up as DeliveryUnknown after the settle time since the last byte', async () => {
    const scene = new Scene({ sends: [outcomeUnknown], job: () => rest });
    expect(await scene.end()).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
    expect(scene.elapsedMs()).toBe(SETTLED_AFTER_MS);
    expect(scene.shown.at(-1)).toBe('delivery-unknown');
  });

  it('is assumed if onUnknownDelivery is "assumeSent"', async () => {
    const scene = new Scene({ sends: [outcomeUnknown], job: () => rest }, { onUnknownDelivery: 'assumeSent' });
    expect(await scene.end()).toMatchObject({ delivery: 'assumed', prLinkChanged: false, sentAt: iso(START_MS) });
  });

  it('counts as sent at the time of the grant', async () => {
    const sends = [{ ...outcomeUnknown, afterMs: 10 * SECOND }];
    const scene = new Scene({ sends, job: () => rest }, { onUnknownDelivery: 'assumeSent' });
    expect(await scene.end()).toMatchObject({ delivery: 'assumed', sentAt: iso(START_MS) });
  });

  it('is looked into further although a grant comes late', async () => {
    const scene = new Scene({ sends: [outcomeUnknown], job: () => rest });
    await scene.advance(20 * SECOND);
    scene.receive(granted({ runId: 'earlier' }));
    await scene.advance();
    expect(scene.watched).toHaveLength(1);
  });
});

describe('an unknown delivery with onUnknownDelivery "resend"', () => {
  it('makes the follow-up send again', async () => {
    const scene = new Scene({ sends: [outcomeUnknown, {}], job: () => rest }, { onUnknownDelivery: 'resend' });
    expect(await scene.end()).toMatchObject({ delivery: 'sent' });
    expect(scene.calls).toEqual([
      ...['ask 1', 'send 1', 'report 1 unknown', 'watch evidence', 'next task'],
      ...['ask 2', 'send 2', 'report 2 sent', 'watch end', 'end'],
    ]);
  });

  it('makes the follow-up send again only once', async () => {
    const sends = [outcomeUnknown, outcomeUnknown];
    const scene = new Scene({ sends, job: () => rest }, { onUnknownDelivery: 'resend' });
    expect(await scene.end()).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
    expect(scene.sent).toHaveLength(2);
  });

  it('stays unknown if the second send is refused', async () => {
    const sends = [outcomeUnknown, { outcome: 'rejected' } as const];
    const scene = new Scene({ sends, job: () => rest }, { onUnknownDelivery: 'resend' });
    expect(await scene.end()).toMatchObject({ type: 'MessageRejected', delivered: 'unknown' });
    expect(scene.flow.progress().earlierSendUnknown).toBe(true);
  });

  it('keeps the turn of the first send if the second one is refused', async () => {
    const sends = [outcomeUnknown, { outcome: 'rejected' } as const];
    const scene = new Scene({ sends, job: () => rest }, { onUnknownDelivery: 'resend' });
    await scene.end();
    expect(scene.reports.at(-1)).toEqual({ kind: 'end', turnUntilMs: START_MS + SETTLED_AFTER_MS });
  });
});

describe('the decision of an operator', () => {
  /** Operators use `pollNow` while they look for the message. */
  async function pollEachSecond(scene: Scene, times: number): Promise<void> {
    for (let count = 0; count < times; count += 1) {
      await scene.advance(SECOND);
      scene.flow.pollNow();
    }
    await scene.advance(SECOND);
  }

  it('"sent" makes the follow-up watch the turn, also after many polls', async () => {
    const scene = new Scene({ sends: [outcomeUnknown], job: () => rest });
    await pollEachSecond(scene, 8);
    scene.flow.resolveDelivery('sent');
    await scene.advance();
    expect(scene.shown.at(-1)).toBe('polling');
    expect(await scene.end()).toMatchObject({ delivery: 'assumed', status: 'completed' });
    expect(scene.sent).toHaveLength(1);
  });

  it('"notSent" makes the follow-up send again, also after many polls', async () => {
    const scene = new Scene({ sends: [outcomeUnknown, {}], job: () => rest });
    await pollEachSecond(scene, 8);
    scene.flow.resolveDelivery('notSent');
    await scene.advance();
    expect(scene.shown.at(-1)).toBe('polling');
    expect(await scene.end()).toMatchObject({ delivery: 'sent', status: 'completed' });
    expect(scene.sent).toHaveLength(2);
  });

  it('"notSent" makes the follow-up send again, also after budgetWaitTimeout', async () => {
    const scene = new Scene({ sends: [outcomeUnknown, {}], job: () => rest }, { budgetWaitTimeoutMs: MINUTE });
    await scene.advance(2 * MINUTE);
    scene.flow.resolveDelivery('notSent');
    expect(await scene.end()).toMatchObject({ delivery: 'sent', status: 'completed' });
    expect(scene.sent).toHaveLength(2);
  });

  it('"notSent" makes the follow-up send again, also with onUnknownDelivery "assumeSent"', async () => {
    const script = { sends: [outcomeUnknown, {}], job: () => rest };
    const scene = new Scene(script, { onUnknownDelivery: 'assumeSent' });
    await scene.advance(SECOND);
    scene.flow.resolveDelivery('notSent');
    expect(await scene.end()).toMatchObject({ delivery: 'sent', status: 'completed' });
    expect(scene.sent).toHaveLength(2);
  });

  it('"notSent" decides nothing about the next send', async () => {
    const scene = new Scene({ sends: [outcomeUnknown, outcomeUnknown], job: () => rest });
    await scene.advance(SECOND);
    scene.flow.resolveDelivery('notSent');
    expect(await scene.end()).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
    expect(scene.sent).toHaveLength(2);
  });

  it('is refused before the delivery is in doubt', () => {
    const { flow } = new Scene({ sends: [outcomeUnknown], job: () => rest });
    expect(flow.issueWithDecision('sent')).toContain('must be reconciling (it is waiting-for-budget)');
  });

  it('is accepted while the delivery is in doubt', async () => {
    const scene = new Scene({ sends: [outcomeUnknown], job: () => rest });
    await scene.advance(SECOND);
    expect(scene.flow.issueWithDecision('sent')).toBeUndefined();
  });

  it('is refused after another decision', async () => {
    const scene = new Scene({ sends: [outcomeUnknown], job: () => rest });
    await scene.advance(SECOND);
    scene.flow.resolveDelivery('notSent');
    expect(scene.flow.issueWithDecision('sent')).toContain('has already been decided');
  });

  it('is refused if it is neither "sent" nor "notSent"', async () => {
    const scene = new Scene({ sends: [outcomeUnknown], job: () => rest });
    await scene.advance(SECOND);
    expect(scene.flow.issueWithDecision({ decision: 'sent' })).toContain('must be sent or notSent');
  });
});

describe('a decision in the task in which the watch for evidence ends', () => {
  /** The first watch ends with this after a second, although a decision stops it before: both are in one task. */
  function endFirstWatch(scene: Scene, end: WatchResult): void {
    const watchJob = scene.watchJob.bind(scene);
    scene.watchJob = (request) => {
      const watch = watchJob(request);
      if (scene.watched.length > 1) return watch;
      watch.stop();
      return { result: scene.condition(() => false, SECOND).then(() => end), stop: () => undefined };
    };
  }
  const observation = { polls: 1, nextPollAt: iso(START_MS), observedActive: true, intervalMs: 1 };

  it('counts for the send of a run that has the turn', async () => {
    const asks = [granted(), earlierSend({ outcome: 'unknown' }), noReply()];
    const scene = new Scene({ asks, sends: [outcomeUnknown], job: () => rest });
    endFirstWatch(scene, { kind: 'foreign', observation });
    await scene.advance(SECOND / 2);
    scene.flow.resolveDelivery('notSent');
    await scene.advance(MINUTE);
    expect(scene.calls).toEqual([
      ...['ask 1', 'send 1', 'report 1 unknown', 'watch evidence'],
      ...['ask 1', 'next task', 'ask 2'],
    ]);
  });

  it('does not count for a send that is granted next', async () => {
    const scene = new Scene({ asks: [granted(), granted()], sends: [outcomeUnknown, outcomeUnknown], job: () => rest });
    endFirstWatch(scene, { kind: 'foreign', observation });
    await scene.advance(SECOND / 2);
    scene.flow.resolveDelivery('notSent');
    await scene.advance(MINUTE);
    expect(scene.calls).toEqual([
      ...['ask 1', 'send 1', 'report 1 unknown', 'watch evidence'],
      ...['ask 1', 'send 1', 'report 1 unknown', 'watch evidence'],
    ]);
  });

  it('is forgotten if the job shows evidence', async () => {
    // A reset run repeats the watch of the run before, and then asks who has the turn.
    const asks = [granted({ runId: 'earlier' }), earlierSend({ outcome: 'unknown' })];
    const scene = new Scene({ asks, sends: [outcomeUnknown], job: () => rest, mayHaveSent: true });
    endFirstWatch(scene, { kind: 'evidence', job: working, observation });
    await scene.advance(SECOND / 2);
    scene.flow.resolveDelivery('notSent');
    await scene.advance(MINUTE);
    expect(scene.calls).toEqual([
      ...['ask 1', 'send 1', 'report 1 unknown', 'watch evidence', 'watch end'],
      ...['ask 1', 'watch evidence'],
    ]);
  });
});
