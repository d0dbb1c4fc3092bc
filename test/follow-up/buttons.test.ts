import { describe, expect, test } from 'vitest';
import type { FollowUpSettings as Settings } from '../../src/contract/index.js';
import { iso } from '../../src/contract/durations.js';
import { markdownInstant } from '../../src/contract/text.js';
import { describeProgress } from '../../src/follow-up/details.js';
import * as s from './support.js';
import { granted, known, MINUTE, rest, SECOND, START_MS, working } from './support.js';

s.useVirtualTime();

const start = (script: s.Script, settings: Partial<Settings> = {}) => new s.Scene(settings, script);
const passedMs = () => Date.now() - START_MS;
const unknown = { outcome: 'unknown', message: 'connection reset' } as const;
const lost = { sends: [unknown, unknown, {}], job: () => rest };

describe('the word of an operator is for one send', () => {
  test('is taken once', async () => {
    const scene = start(lost);
    await scene.play('pass 1s, word sent');
    expect(scene.flow.refusalOfWord('notSent')).toContain('already been decided');
    await scene.play('end -> assumed completed, sent -> 1');
  });

  test('is not taken while the budget is asked for the next send', async () => {
    const scene = start({ ...lost, asks: [granted(), () => s.silent()] });
    // The first try of an ask takes up to 15 s.
    const ask = scene.askForSlot.bind(scene);
    scene.askForSlot = (order, untilMs) => ask(order, untilMs, () => undefined);
    await scene.play('pass 1s, word notSent, pass 1s, calls 1 -> ask 2');
    expect(scene.flow.refusalOfWord('notSent')).toContain('already been decided');
  });

  test('is forgotten where the job shows evidence in the same task', async () => {
    // A reset run repeats its predecessor's watch, and asks who has the turn.
    const port = { mayHaveSent: true };
    const asks = [granted({ runId: 'earlier' }), known({ outcome: 'unknown' })];
    const scene = start({ asks, sends: [unknown], job: () => rest, port });
    const watch = scene.watchJob.bind(scene);
    const seen = { polls: 1, nextPollAt: iso(START_MS), observedActive: true, intervalMs: 1 };
    scene.watchJob = (order) => {
      if (scene.watched.length > 0) return watch(order);
      void watch(order);
      const end = { kind: 'evidence', job: working, seen } as const;
      return { result: new Promise((resolve) => setTimeout(() => resolve(end), SECOND)), stop: () => undefined };
    };
    await scene.pass(SECOND / 2);
    scene.flow.resolveDelivery('notSent');
    await scene.pass(MINUTE);
    expect(scene.calls.slice(-4)).toEqual(['watch evidence', 'watch end', 'ask 1', 'watch evidence']);
  });

  test.each([
    ['counts for that send', known({ outcome: 'unknown' }), ['ask 1', 'next task', 'ask 2']],
    ['says nothing of the next send', granted(), ['ask 1', 'send 1', 'settle 1 unknown', 'watch evidence']],
  ])('that comes just before another run has the turn %s', async (_, answer, calls) => {
    const scene = start({ asks: [granted(), answer, s.silent()], sends: [unknown, unknown], job: () => rest });
    const watch = scene.watchJob.bind(scene);
    scene.watchJob = (order) => {
      const { result, stop } = watch({ ...order, ...(scene.watched.length === 0 && { runId: 'later' }) });
      const isFirst = scene.watched.length === 1;
      return isFirst
        ? { result: scene.condition(() => false, SECOND).then(() => result), stop: () => undefined }
        : { result, stop };
    };
    await scene.pass(SECOND / 2);
    scene.flow.resolveDelivery('notSent');
    await scene.pass(MINUTE);
    expect(scene.calls.slice(4)).toEqual(calls);
  });
});

s.testScenes([
  [
    'what an operator says was not sent is sent again, also after the wait for the first slot',
    { sends: [unknown, {}], job: () => rest },
    'pass 2m, word notSent, end -> sent completed, sent -> 2',
    { budgetWaitTimeoutMs: MINUTE },
  ],
  [
    'a job that is not found is counted in a row',
    { asks: [s.notFound, s.notFound, s.full({ retryMs: SECOND }), s.notFound, s.notFound, granted()] },
    'pass 1m, sent -> 1',
  ],
]);

describe('a run in doubt, and what people do', () => {
  const port = { mayHaveSent: true };

  test.each([
    ['granted', granted(), ['ask 1', 'next task', 'settle 1 notSent', 'next task', 'end'], 'no'],
    ['given a place', s.waiting(), ['ask 1', 'next task', 'end'], 'no'],
    ['given a place as another run', s.waiting({ runId: 'earlier' }), ['ask 1', 'next task', 'end'], 'unknown'],
  ] as const)(
    'in doubt, a follow-up to an archived job that is %s gives it back',
    async (_, answer, calls, delivered) => {
      const job = { status: 'archived' };
      const scene = start({ asks: [(order) => ({ kind: 'archived', job, answer: answer(order) })], port });
      expect(await scene.end()).toMatchObject({ type: 'JobArchived', delivered });
      expect(scene.calls).toEqual(calls);
      expect(scene.flow.progress().job).toEqual(job);
    },
  );

  test('asks that are completed by hand back off', async () => {
    const scene = start({ asks: (_, count) => (count === 1 ? s.full({ retryMs: SECOND }) : granted()) });
    const ask = scene.askForSlot.bind(scene);
    scene.askForSlot = (...args) => ({ ...ask(...args), result: Promise.resolve(undefined) });
    await scene.play('pass 1h, cancel, end -> Cancelled no');
    expect(scene.asked.length).toBeGreaterThan(5);
    expect(scene.asked.length).toBeLessThan(20);
  });

  test.each([
    [{ isSameMessage: false }, 'unknown'],
    [{ remembersAll: false }, 'unknown'],
    [{ runId: 'earlier' }, 'unknown'],
    [{}, 'no'],
  ])('what the budget knows of a refused send %o tells', async (more, delivered) => {
    const asks = [known({ outcome: 'rejected', ...more })];
    expect(await start({ asks, port }).end()).toMatchObject({ type: expect.any(String) as string, delivered });
  });

  test('a watch for rest that ends before its time is not begun again until then', async () => {
    const scene = start({ asks: [s.atWork] }, { budgetWaitTimeoutMs: MINUTE });
    const seen = { polls: 1, nextPollAt: iso(START_MS), observedActive: false, intervalMs: 1 };
    scene.watchJob = () => ({ result: Promise.resolve({ kind: 'deadline', seen }), stop: () => undefined });
    expect(await scene.end()).toMatchObject({ type: 'BudgetWaitTimeout' });
    expect(passedMs()).toBe(MINUTE);
  });

  test('shows the job that it waits for', async () => {
    const scene = start({ asks: [s.atWork], job: 'none' });
    await scene.pass();
    expect(scene.flow.progress().job).toEqual(working);
  });
});

describe('people see when it is tried again', () => {
  const described = ({ flow }: s.Scene) => describeProgress(flow.progress(), 'follow-up/p/j/k', Date.now());

  test('after a send that did not start, and that it is no slot that it waits for', async () => {
    const scene = start({ asks: () => granted(), sends: () => ({ outcome: 'notSent', message: 'refused' }) });
    await scene.pass(60 * MINUTE);
    const { nextTryAt = '' } = scene.flow.progress();
    expect(Date.parse(nextTryAt)).toBeGreaterThan(Date.now());
    expect(described(scene)).toContain('waiting to try again');
    expect(described(scene)).toContain('poll-now');
    expect(described(scene)).toContain(`tries again: ${markdownInstant(nextTryAt, Date.now())}`);
    scene.flow.pollNow();
    await scene.pass();
    expect(scene.sent.at(-1)?.atMs).toBe(Date.now());
  });

  test('where the line is full', async () => {
    const scene = start({ asks: () => s.full() });
    await scene.pass(20 * MINUTE);
    expect(described(scene)).toContain('tries again: ');
    expect(described(scene)).not.toContain('askForSlot');
  });
});
