import { describe, expect, it } from 'vitest';
import { iso } from '../../src/common/index.js';
import { DAY, HOUR, MINUTE, SECOND } from '../support/times.js';
import {
  archived,
  done,
  earlierSend,
  full,
  granted,
  noReply,
  notFound,
  outcomeUnknown,
  rest,
  Scene,
  START_MS,
  useVirtualTime,
  waiting,
} from './support.js';

useVirtualTime();

/** The run repeats the ask of the run before it, and with it this reply. */
const grantOfRunBefore = granted({ runId: 'earlier' });
/** The grant belongs to another run, so nothing is sent. */
const foreign = { outcome: 'foreign' } as const;

describe('a run after a reset', () => {
  it('asks as one that may have sent', async () => {
    const scene = new Scene({ mayHaveSent: true });
    await scene.end();
    expect(scene.asked[0]?.request).toMatchObject({ isInDoubt: true, ask: { mayHaveSent: true } });
  });

  it('asks again at once if the reply was to the run before, whose place in line may be lost', async () => {
    const scene = new Scene({ asks: [waiting({ runId: 'earlier' }), waiting()], mayHaveSent: true });
    await scene.advance(HOUR);
    expect(scene.askedAfterMs()).toEqual([0, 0]);
  });
});

describe('a run after a reset with onUnknownDelivery "resend"', () => {
  const resend = { onUnknownDelivery: 'resend' } as const;

  it('sends again if the run before has sent once', async () => {
    const asks = [earlierSend({ sendNumber: 1, outcome: 'unknown' }), granted()];
    const scene = new Scene({ asks, job: () => rest, mayHaveSent: true }, resend);
    expect(await scene.end()).toMatchObject({ delivery: 'sent' });
    expect(scene.sent).toHaveLength(1);
  });

  it('does not send again if the run before may have sent twice', async () => {
    const asks = [earlierSend({ sendNumber: 2, outcome: 'unknown' }), granted()];
    const scene = new Scene({ asks, job: () => rest, mayHaveSent: true }, resend);
    expect(await scene.end()).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
    expect(scene.sent).toHaveLength(0);
  });

  it('does not send again if a budget that was replaced knows only one of the sends', async () => {
    const asks = [earlierSend({ sendNumber: 1, outcome: 'unknown', listedAtMs: 0 }), granted()];
    const scene = new Scene({ asks, job: () => rest, mayHaveSent: true }, resend);
    expect(await scene.end()).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
    expect(scene.sent).toHaveLength(0);
  });

  it('does not send again after a send of its own if the run before may have sent twice', async () => {
    const asks = [earlierSend({ sendNumber: 2, outcome: 'limited', verdict: 'undelivered' }), granted(), granted()];
    const scene = new Scene({ asks, sends: [outcomeUnknown, {}], job: () => rest, mayHaveSent: true }, resend);
    expect(await scene.end()).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
    expect(scene.sent).toHaveLength(1);
  });
});

describe('a failed run after a reset', () => {
  it('quotes nothing of the service if the run before received the refusal', async () => {
    const asks = [earlierSend({ sendNumber: 1, outcome: 'rejected', verdict: 'undelivered' })];
    const scene = new Scene({ asks, mayHaveSent: true });
    const end = await scene.end();
    expect(end).toMatchObject({ type: 'MessageRejected', delivered: 'no', details: {} });
    expect(end).not.toHaveProperty('details.serviceMessage');
  });

  it('leaves the delivery unknown if its job is archived', async () => {
    const scene = new Scene({ asks: [archived], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'JobArchived', delivered: 'unknown' });
  });

  it('leaves the delivery unknown if its job is not found', async () => {
    const scene = new Scene({ asks: [notFound], job: () => notFound, mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'JobNotFound', delivered: 'unknown' });
  });

  it('leaves the delivery unknown if the budget never replies', async () => {
    const scene = new Scene({ asks: [noReply()], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'BudgetWaitTimeout', delivered: 'unknown' });
  });

  it('rules out the delivery if it had a place in line', async () => {
    const scene = new Scene({ asks: [waiting(), archived], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'JobArchived', delivered: 'no' });
  });

  it('rules out the delivery if the line had no place for it', async () => {
    const scene = new Scene({ asks: [full(), archived], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'JobArchived', delivered: 'no' });
  });

  it('rules out the delivery if a slot was granted to it by a signal', async () => {
    const scene = new Scene({ asks: [noReply()], sends: [{ outcome: 'rejected' }], mayHaveSent: true });
    scene.receive(granted());
    expect(await scene.end()).toMatchObject({ type: 'MessageRejected', delivered: 'no' });
  });

  it('leaves the delivery unknown if only the run before had a place in line', async () => {
    const scene = new Scene({ asks: [waiting({ runId: 'earlier' }), archived], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'JobArchived', delivered: 'unknown' });
  });

  it.each([
    ['a grant', granted()],
    ['a place in line', waiting()],
  ])('rules out the delivery to an archived job if the budget replied with %s', async (_what, reply) => {
    const scene = new Scene({ asks: [(request) => ({ ...archived, reply: reply(request) })], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'JobArchived', delivered: 'no' });
    expect(scene.calls).toEqual(['ask 1', 'next task', 'end']);
    expect(scene.flow.progress().job).toEqual(archived.job);
  });

  it('leaves the delivery to an archived job unknown if the reply was to the run before', async () => {
    const reply = waiting({ runId: 'earlier' });
    const scene = new Scene({ asks: [(request) => ({ ...archived, reply: reply(request) })], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'JobArchived', delivered: 'unknown' });
    expect(scene.calls).toEqual(['ask 1', 'next task', 'end']);
    expect(scene.flow.progress().job).toEqual(archived.job);
  });
});

describe('a run that learns of an earlier send', () => {
  it('watches the turn if the message was sent', async () => {
    const scene = new Scene({ asks: [earlierSend()], job: () => done, mayHaveSent: true });
    const sentAt = iso(START_MS - 50 * SECOND);
    expect(await scene.end()).toMatchObject({ sentAt, prLink: done.prLink, prLinkChanged: false });
  });

  it('looks for evidence if the outcome is not known', async () => {
    const scene = new Scene({ asks: [earlierSend({ outcome: null })], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
    expect(scene.elapsedMs()).toBe(4 * MINUTE);
  });

  it('sends again, with the next number, if the message was not sent', async () => {
    const earlier = earlierSend({ outcome: 'notSent', verdict: 'undelivered', sendNumber: 4 });
    const scene = new Scene({ asks: [earlier, granted()], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ delivery: 'sent' });
    expect(scene.calls).toEqual(['ask 1', 'ask 5', 'send 5', 'report 5 sent', 'watch end', 'end']);
  });

  it('leaves the delivery unknown after a cancel if that send was not the first', async () => {
    const earlier = earlierSend({ outcome: 'notSent', verdict: 'undelivered', sendNumber: 2 });
    const scene = new Scene({ asks: [earlier, waiting({ sendNumber: 3 })] });
    await scene.advance(5 * SECOND);
    scene.flow.cancel();
    const message = expect.stringContaining('an earlier send of it may have been delivered');
    expect(await scene.end()).toMatchObject({ type: 'Cancelled', delivered: 'unknown', message });
  });

  it('ends as MessageRejected if the service refused the message', async () => {
    const scene = new Scene({
      asks: [earlierSend({ outcome: 'rejected', verdict: 'undelivered' })],
      mayHaveSent: true,
    });
    expect(await scene.end()).toMatchObject({ type: 'MessageRejected', delivered: 'no' });
  });

  it('leaves the delivery unknown after a refusal if the reply was to the run before', async () => {
    const earlier = earlierSend({ outcome: 'rejected', verdict: 'undelivered', runId: 'earlier' });
    const scene = new Scene({ asks: [earlier], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'MessageRejected', delivered: 'unknown' });
  });

  it('leaves the delivery unknown after a refusal if that send was not the first', async () => {
    const scene = new Scene({ asks: [earlierSend({ outcome: 'rejected', verdict: 'undelivered', sendNumber: 2 })] });
    expect(await scene.end()).toMatchObject({ type: 'MessageRejected', delivered: 'unknown' });
  });

  it('shows no time of a send if nothing was sent', async () => {
    const earlier = earlierSend({ outcome: 'notSent', verdict: 'undelivered' });
    const scene = new Scene({ asks: [earlier, waiting()], mayHaveSent: true });
    await scene.advance(10 * SECOND);
    expect(scene.shown.at(-1)).toBe('waiting-for-budget (slot)');
    expect(scene.shownSendAtMs).toBeUndefined();
  });

  it('shows the time of that send if another before it may have arrived', async () => {
    const earlier = earlierSend({ outcome: 'notSent', verdict: 'undelivered', sendNumber: 2 });
    const scene = new Scene({ asks: [earlier, waiting()], mayHaveSent: true });
    await scene.advance(10 * SECOND);
    expect(scene.shown.at(-1)).toBe('waiting-for-budget (slot)');
    expect(scene.shownSendAtMs).toBe(START_MS - MINUTE);
  });
});

describe('a run whose job may have moved on to another message', () => {
  it('ends as Closed, delivered, if its message was sent', async () => {
    const scene = new Scene({ asks: [earlierSend({ outcome: 'sent', verdict: 'superseded' })], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'Closed', delivered: 'yes' });
    expect(scene.calls).toEqual(['ask 1', 'next task', 'end']);
  });

  it('ends as Closed, perhaps delivered, without a known outcome', async () => {
    const scene = new Scene({ asks: [earlierSend({ outcome: null, verdict: 'superseded' })], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'Closed', delivered: 'unknown' });
  });
});

describe('a run whose budget may have forgotten a send', () => {
  it.each(['notSent', 'rejected', 'unknown'] as const)(
    'ends as Closed, perhaps delivered, if the last outcome is %s',
    async (outcome) => {
      const scene = new Scene({ asks: [earlierSend({ outcome, verdict: 'forgotten' })], mayHaveSent: true });
      expect(await scene.end()).toMatchObject({ type: 'Closed', delivered: 'unknown' });
    },
  );
});

describe('a run that repeats the grant of the run before', () => {
  it('sends nothing for it, and asks for its own', async () => {
    const scene = new Scene({ asks: [grantOfRunBefore, granted()], sends: [foreign, {}], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ delivery: 'sent' });
    expect(scene.calls).toEqual(['ask 1', 'send 1', 'ask 1', 'send 1', 'report 1 sent', 'watch end', 'end']);
  });

  it('leaves the delivery unknown if its own ask gets no reply', async () => {
    const scene = new Scene({ asks: [grantOfRunBefore, noReply()], sends: [foreign] });
    expect(await scene.end()).toMatchObject({ type: 'BudgetWaitTimeout', delivered: 'unknown' });
    expect(scene.calls).toEqual(['ask 1', 'send 1', 'ask 1', 'next task', 'end']);
  });

  it('reports the outcome for the run that was granted the send', async () => {
    const scene = new Scene({ asks: [grantOfRunBefore, earlierSend()], mayHaveSent: true });
    await scene.end();
    expect(scene.reports[0]).toMatchObject({ kind: 'outcome', runId: 'earlier' });
  });

  it('asks who has the turn before it watches the job', async () => {
    const scene = new Scene({ asks: [grantOfRunBefore, earlierSend({ verdict: 'superseded' })], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'Closed', delivered: 'yes' });
    expect(scene.calls).toEqual(['ask 1', 'send 1', 'report 1 sent', 'watch end', 'ask 1', 'next task', 'end']);
  });

  it('asks who has the turn before it looks for evidence', async () => {
    const asks = [grantOfRunBefore, earlierSend({ verdict: 'superseded' })];
    const scene = new Scene({ asks, sends: [outcomeUnknown], mayHaveSent: true });
    expect(await scene.end()).toMatchObject({ type: 'Closed', delivered: 'yes' });
    expect(scene.calls).toEqual([
      ...['ask 1', 'send 1', 'report 1 unknown', 'watch evidence'],
      ...['ask 1', 'next task', 'end'],
    ]);
  });

  it('asks who has the turn, also after budgetWaitTimeout', async () => {
    const script = { asks: [grantOfRunBefore, earlierSend()], sends: [{ afterMs: HOUR }], mayHaveSent: true };
    const scene = new Scene(script, { budgetWaitTimeoutMs: MINUTE });
    expect(await scene.end()).toMatchObject({ delivery: 'sent' });
  });

  it('asks what became of the send, also after budgetWaitTimeout', async () => {
    const sends = [{ ...foreign, afterMs: HOUR }];
    const script = { asks: [grantOfRunBefore, earlierSend()], sends, mayHaveSent: true };
    const scene = new Scene(script, { budgetWaitTimeoutMs: MINUTE });
    expect(await scene.end()).toMatchObject({ delivery: 'sent' });
  });

  it('asks who has the turn until jobTimeout', async () => {
    const script = { asks: [grantOfRunBefore, noReply()], mayHaveSent: true };
    const scene = new Scene(script, { budgetWaitTimeoutMs: MINUTE, jobTimeoutMs: DAY });
    expect(await scene.end()).toMatchObject({ type: 'BudgetWaitTimeout', delivered: 'unknown' });
    expect(scene.elapsedMs()).toBe(DAY);
  });

  it('asks who has the turn, also after jobTimeout', async () => {
    const asks = [grantOfRunBefore, earlierSend({ outcome: null })];
    const script = { asks, sends: [{ ...outcomeUnknown, afterMs: 2 * DAY }], job: () => rest, mayHaveSent: true };
    const scene = new Scene(script, { budgetWaitTimeoutMs: MINUTE, jobTimeoutMs: DAY });
    expect(await scene.end()).toMatchObject({ type: 'DeliveryUnknown', delivered: 'unknown' });
  });

  it('asks again if the grant names a run that never was', async () => {
    const scene = new Scene({ asks: [waiting(), waiting()], sends: [foreign] });
    await scene.advance();
    scene.receive(granted({ runId: 'typed' }));
    await scene.advance();
    expect(scene.calls).toEqual(['ask 1', 'send 1', 'ask 1']);
  });
});
