import { describe, expect, it } from 'vitest';
import { iso } from '../../src/common/index.js';
import { fingerprint } from '../../src/protocol/index.js';
import { DAY, HOUR, MINUTE, SECOND } from '../support/times.js';
import {
  archived,
  done,
  granted,
  notFound,
  notSent,
  rest,
  Scene,
  type Script,
  START_MS,
  useVirtualTime,
  waiting,
  working,
} from './support.js';

useVirtualTime();

const limited = { outcome: 'limited', message: 'too many', statusCode: 429 } as const;
/** The service answers the message with 404. */
const jobNotFound = { outcome: 'notFound', message: 'no such job', statusCode: 404 } as const;
/** Nothing was sent, because the service refused to let the job be read before. */
const readRefused = { ...notSent, refusal: 'credentials' } as const;

describe('a message', () => {
  it('counts as sent at the time of the response', async () => {
    const scene = new Scene({ sends: [{ afterMs: 29 * SECOND }] });
    expect(await scene.end()).toMatchObject({ sentAt: iso(START_MS + 29 * SECOND) });
    expect(scene.reports[0]).toMatchObject({ kind: 'outcome', atMs: START_MS + 29 * SECOND });
    expect(scene.watched[0]).toMatchObject({ until: 'end', arrivedByMs: START_MS + 29 * SECOND });
  });

  it('has the end of the turn before, which the grant names, as its baseline', async () => {
    const previousEnd = fingerprint(done);
    const scene = new Scene({ asks: [granted({ previousEnd })] });
    await scene.end();
    expect(scene.watched[0]).toMatchObject({ until: 'end', baseline: { job: rest, previousEnd } });
  });

  it('ends the follow-up as MessageRejected if the service refuses it', async () => {
    const scene = new Scene({ sends: [{ outcome: 'rejected', message: 'too long', statusCode: 413 }] });
    const details = { serviceMessage: 'too long', statusCode: 413 };
    expect(await scene.end()).toMatchObject({ type: 'MessageRejected', delivered: 'no', details });
    expect(scene.shown.at(-1)).toBe('not-sent');
  });

  it('is sent again at once after a 429, because the budget makes it wait', async () => {
    const scene = new Scene({ sends: [{ ...limited, retryAfterMs: 9_000 }, {}] });
    await scene.advance();
    expect(scene.reports).toMatchObject([
      { kind: 'outcome', sendNumber: 1, outcome: 'limited', retryAfterMs: 9_000 },
      { kind: 'outcome', sendNumber: 2, outcome: 'sent' },
    ]);
  });

  it('is reported with the refusal, for which the budget waits, if a refused read prevents its send', async () => {
    const scene = new Scene({ sends: [{ ...readRefused, retryAfterMs: 5_000 }] });
    await scene.advance();
    expect(scene.reports).toMatchObject([
      { kind: 'outcome', sendNumber: 1, outcome: 'notSent', refusal: 'credentials', retryAfterMs: 5_000 },
    ]);
  });
});

describe('a message that is answered with 404', () => {
  it('ends the follow-up as JobNotFound after another 404 half a minute later', async () => {
    const scene = new Scene({ sends: [jobNotFound, jobNotFound] });
    expect(await scene.end()).toMatchObject({ type: 'JobNotFound', delivered: 'no' });
    expect(scene.elapsedMs()).toBe(30 * SECOND);
    expect(scene.shown.at(-1)).toBe('not-sent');
  });

  it('is sent again half a minute later', async () => {
    const scene = new Scene({ sends: [jobNotFound, {}] });
    expect(await scene.end()).toMatchObject({ delivery: 'sent' });
    expect(scene.sent.map(({ afterMs }) => afterMs)).toEqual([0, 30 * SECOND]);
  });

  it('is sent again after another 404 ten minutes later', async () => {
    const scene = new Scene({ sends: [jobNotFound, { ...jobNotFound, afterMs: 10 * MINUTE }, {}] });
    expect(await scene.end()).toMatchObject({ delivery: 'sent' });
  });

  it('is sent again after another 404 an hour later, with a 429 between them', async () => {
    const scene = new Scene({ sends: [jobNotFound, { ...limited, afterMs: HOUR }, jobNotFound, {}] });
    expect(await scene.end()).toMatchObject({ delivery: 'sent' });
  });
});

describe('a send that does not start', () => {
  it('is tried again at intervals that grow to an hour', async () => {
    const scene = new Scene({ asks: () => granted(), sends: () => notSent });
    await scene.advance(5 * DAY);
    expect(scene.sent.length).toBeGreaterThan(5 * 24);
    expect(scene.sent.length).toBeLessThan(5 * 24 + 20);
    expect(scene.asked.length).toBeLessThan(5 * 24 + 20);
  });

  it('is tried every five minutes or sooner in a day in which reads of the job are refused', async () => {
    const scene = new Scene({ asks: () => granted(), sends: () => readRefused });
    await scene.advance(DAY);
    const sentAfterMs = scene.sent.map(({ afterMs }) => afterMs);
    const intervals = sentAfterMs.slice(1).map((afterMs, index) => afterMs - sentAfterMs[index]!);
    expect(Math.max(...intervals)).toBeLessThanOrEqual(5 * MINUTE);
    expect(scene.elapsedMs() - sentAfterMs.at(-1)!).toBeLessThanOrEqual(5 * MINUTE);
  });

  it('is tried fewer than 1,700 times in a year, so that no history is full', async () => {
    const script: Script = { asks: () => granted(), sends: () => notSent };
    const scene = new Scene(script, { budgetWaitTimeoutMs: 365 * DAY });
    await scene.end();
    expect(scene.elapsedMs()).toBe(365 * DAY);
    expect(scene.asked.length).toBeLessThan(1_700);
  });

  it.each([
    ['a refused read of the job', readRefused],
    ['the end of its lease', notSent],
  ])('is tried at once after pollNow, also after %s', async (_why, send) => {
    const scene = new Scene({ asks: () => granted(), sends: () => send });
    await scene.advance(DAY);
    scene.flow.pollNow();
    await scene.advance();
    expect(scene.sent.at(-1)?.afterMs).toBe(DAY);
  });
});

describe('a grant after a refused read', () => {
  /** Waits in line for the first send, which a refused read prevents, and then for the second one, which is granted. */
  async function grantSecondSend(scene: Scene): Promise<void> {
    await scene.advance(MINUTE);
    scene.receive(granted());
    await scene.advance(10 * SECOND);
    scene.receive(granted({ sendNumber: 2 }));
    await scene.advance();
  }

  it.each<[how: string, read: NonNullable<Script['read']>]>([
    ['is archived', archived.job],
    ['works on another message', working],
    ['is not found', notFound],
    ['cannot be read', { kind: 'failed', message: 'HTTP 500' }],
  ])('is returned without a send if the job %s', async (_how, read) => {
    const scene = new Scene({ asks: [waiting(), waiting()], sends: [readRefused], read });
    await grantSecondSend(scene);
    expect(scene.calls).toEqual([
      ...['ask 1', 'send 1', 'report 1 notSent'],
      ...['ask 2', 'read', 'next task', 'report 2 notSent'],
    ]);
  });

  it('is returned with the refusal if another read is refused', async () => {
    const refused = { refusal: 'credentials', statusCode: 401 } as const;
    const read = { kind: 'failed', message: 'HTTP 401', refused } as const;
    const scene = new Scene({ asks: [waiting(), waiting()], sends: [readRefused], read });
    await grantSecondSend(scene);
    expect(scene.calls.slice(-4)).toEqual(['ask 2', 'read', 'next task', 'report 2 notSent']);
    expect(scene.reports.at(-1)).toMatchObject({ kind: 'outcome', sendNumber: 2, outcome: 'notSent', ...refused });
  });

  it('is returned without a send if a cancel comes during another read', async () => {
    const scene = new Scene({ asks: [waiting(), waiting()], sends: [readRefused], read: rest });
    const readJob = scene.readJob.bind(scene);
    scene.readJob = () => {
      scene.flow.cancel();
      return readJob();
    };
    await grantSecondSend(scene);
    expect(await scene.end()).toMatchObject({ type: 'Cancelled', delivered: 'no' });
    expect(scene.calls.slice(-6)).toEqual(['ask 2', 'read', 'next task', 'report 2 notSent', 'next task', 'end']);
  });

  it('is used if the job is at rest', async () => {
    const scene = new Scene({ asks: [waiting(), waiting()], sends: [readRefused, {}], read: rest });
    await grantSecondSend(scene);
    expect(scene.calls.slice(-5)).toEqual(['ask 2', 'read', 'send 2', 'report 2 sent', 'watch end']);
    expect(scene.sent[1]?.request).toMatchObject({ jobBefore: rest });
  });

  it('is used although the job works if whenActive is "send"', async () => {
    const script: Script = { asks: [waiting(), waiting()], sends: [readRefused, {}], read: working };
    const scene = new Scene(script, { whenActive: 'send' });
    await grantSecondSend(scene);
    expect(scene.calls.slice(-5)).toEqual(['ask 2', 'read', 'send 2', 'report 2 sent', 'watch end']);
    expect(scene.sent[1]?.request).toMatchObject({ jobBefore: working });
  });
});

describe('the time of the last send that may have arrived', () => {
  it('is not shown if the only send did not start', async () => {
    const scene = new Scene({ asks: [granted(), waiting()], sends: [notSent] });
    await scene.advance(10 * SECOND);
    expect(scene.shown.at(-1)).toBe('waiting-for-budget (slot)');
    expect(scene.shownSendAtMs).toBeUndefined();
  });

  it('stays that of the send before if a send does not start', async () => {
    const sends = [{ ...limited, afterMs: SECOND }, notSent];
    const scene = new Scene({ asks: [granted(), granted(), waiting()], sends });
    await scene.advance(10 * SECOND);
    expect(scene.shown.at(-1)).toBe('waiting-for-budget (slot)');
    expect(scene.shownSendAtMs).toBe(START_MS);
  });
});
