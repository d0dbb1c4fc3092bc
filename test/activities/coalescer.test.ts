import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createCoalescer } from '../../src/activities/coalescer.js';

/** Calls that end when told to. */
function heldCalls() {
  const calls: { group: string; requests: number[]; end: (answers: string[]) => void; fail: (error: Error) => void }[] =
    [];
  const call = (group: string, requests: number[]) =>
    new Promise<string[]>((end, fail) => void calls.push({ group, requests, end, fail }));
  return { calls, ask: createCoalescer({ call, maxCallsInFlight: 2, maxPerCall: 3 }) };
}

/** Calls that are answered at once, on a clock that moves only when told to. */
function callsOnFakeTime() {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const calls: number[][] = [];
  const call = (_group: string, requests: number[]) => {
    calls.push(requests);
    return Promise.resolve(requests.map(String));
  };
  return { calls, call };
}

test('requests go out at once until the allowed number of calls is under way, and then share calls in order', async () => {
  const { calls, ask } = heldCalls();
  const answers = [1, 2, 3, 4, 5, 6].map((request) => ask('red', request));
  expect(calls.map(({ requests }) => requests)).toEqual([[1], [2]]);
  calls[0]?.end(['one']);
  await expect(answers[0]).resolves.toBe('one');
  expect(calls[2]?.requests).toEqual([3, 4, 5]);
  calls[2]?.end(['three', 'four', 'five']);
  expect(await Promise.all(answers.slice(2, 5))).toEqual(['three', 'four', 'five']);
  expect(calls[3]?.requests).toEqual([6]);
});

test('the first call leaves at once, and what comes within the gap after it leaves together', async () => {
  const { calls, call } = callsOnFakeTime();
  const ask = createCoalescer({ call, maxCallsInFlight: 2, maxPerCall: 3, apartMs: 250 });
  const answers = [1, 2, 3].map((request) => ask('red', request));
  expect(calls).toEqual([[1]]);
  await vi.advanceTimersByTimeAsync(249);
  expect(calls).toEqual([[1]]);
  await vi.advanceTimersByTimeAsync(1);
  expect(calls).toEqual([[1], [2, 3]]);
  expect(await Promise.all(answers)).toEqual(['1', '2', '3']);
  await vi.advanceTimersByTimeAsync(250);
  void ask('red', 4);
  expect(calls[2]).toEqual([4]);
});

test('what waits for the gap to end leaves when it is told to hurry, and the next gap starts then', async () => {
  const { calls, call } = callsOnFakeTime();
  const ask = createCoalescer({ call, maxCallsInFlight: 2, maxPerCall: 3, apartMs: 250 });
  const answers = [1, 2, 3].map((request) => ask('red', request));
  await vi.advanceTimersByTimeAsync(100);
  expect(ask.hurry('blue')).toBe(false);
  expect(calls).toEqual([[1]]);
  expect(ask.hurry('red')).toBe(true);
  expect(ask.hurry('red')).toBe(false);
  expect(calls).toEqual([[1], [2, 3]]);
  expect(await Promise.all(answers)).toEqual(['1', '2', '3']);
  void ask('red', 4);
  await vi.advanceTimersByTimeAsync(249);
  expect(calls).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(1);
  expect(calls[2]).toEqual([4]);
});

test('a call leaves before the gap is over if enough requests wait for it', () => {
  const { calls, call } = callsOnFakeTime();
  const ask = createCoalescer({ call, maxCallsInFlight: 3, maxPerCall: 9, apartMs: 250, enough: 2 });
  for (const request of [1, 2, 3, 4]) void ask('red', request);
  expect(calls).toEqual([[1], [2, 3]]);
});

const ALONG = { answer: 'taken along', forMs: 2_000 };

describe('another call of the same group', () => {
  test('takes along what waits, confirms it, and begins the gap anew', async () => {
    const { calls, call } = callsOnFakeTime();
    const tell = createCoalescer({ call, maxCallsInFlight: 1, maxPerCall: 2, apartMs: 250 });
    const told = [1, 2, 3, 4].map((request) => tell('red', request));
    await vi.advanceTimersByTimeAsync(100);
    const taken: number[][] = [];
    const other = tell.takeAlong('red', ALONG, (requests) => {
      taken.push(requests);
      return Promise.resolve('answered');
    });
    expect(await other).toBe('answered');
    expect(await Promise.all(told.slice(0, 3))).toEqual(['1', 'taken along', 'taken along']);
    await vi.advanceTimersByTimeAsync(249);
    expect({ calls, taken }).toEqual({ calls: [[1]], taken: [[2, 3]] });
    await vi.advanceTimersByTimeAsync(1);
    expect(calls).toEqual([[1], [4]]);
  });

  test('that finds nothing waiting takes nothing along, and changes nothing', async () => {
    const { calls, call } = callsOnFakeTime();
    const tell = createCoalescer({ call, maxCallsInFlight: 1, maxPerCall: 2, apartMs: 250 });
    const carry = (requests: number[]) => Promise.resolve(requests);
    expect(await tell.takeAlong('red', ALONG, carry)).toEqual([]);
    await tell('red', 1);
    await vi.advanceTimersByTimeAsync(200);
    expect(await tell.takeAlong('red', ALONG, carry)).toEqual([]);
    const told = tell('red', 2);
    await vi.advanceTimersByTimeAsync(50);
    expect(await told).toBe('2');
    expect(calls).toEqual([[1], [2]]);
  });

  test('that fails lets what it took along go by a call of its own at once', async () => {
    const { calls, call } = callsOnFakeTime();
    const tell = createCoalescer({ call, maxCallsInFlight: 1, maxPerCall: 9, apartMs: 250 });
    const told = [1, 2, 3].map((request) => tell('red', request));
    await expect(
      tell.takeAlong('red', ALONG, () => {
        told.push(tell('red', 4));
        return Promise.reject(new Error('lost'));
      }),
    ).rejects.toThrow('lost');
    expect(calls).toEqual([[1], [2, 3]]);
    await vi.advanceTimersByTimeAsync(250);
    expect(calls).toEqual([[1], [2, 3], [4]]);
    expect(await Promise.all(told)).toEqual(['1', '2', '3', '4']);
  });

  test('that takes too long is not waited for: what it took along goes by a call of its own, too, but once', async () => {
    const { calls, call } = callsOnFakeTime();
    const tell = createCoalescer({ call, maxCallsInFlight: 1, maxPerCall: 9, apartMs: 250 });
    const told = [1, 2].map((request) => tell('red', request));
    const other = tell.takeAlong(
      'red',
      ALONG,
      () => new Promise<string>((resolve) => setTimeout(resolve, 5_000, 'late')),
    );
    await vi.advanceTimersByTimeAsync(ALONG.forMs - 1);
    told.push(tell('red', 3), tell('red', 4));
    expect(calls).toEqual([[1], [3]]);
    await vi.advanceTimersByTimeAsync(1);
    expect(calls).toEqual([[1], [3], [2]]);
    // Its own call does not begin the gap anew.
    await vi.advanceTimersByTimeAsync(249);
    expect(await Promise.all(told)).toEqual(['1', '2', '3', '4']);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await other).toBe('late');
    expect(calls).toEqual([[1], [3], [2], [4]]);
  });
});

test('a request that is held starts no call, and goes out when it is told to hurry', async () => {
  const { calls, call } = callsOnFakeTime();
  const tell = createCoalescer({ call, maxCallsInFlight: 1, maxPerCall: 9, apartMs: 250 });
  const told = tell('red', 1, { isHeld: true });
  expect(calls).toEqual([]);
  expect(tell.hurry('red')).toBe(true);
  expect(await told).toBe('1');
});

test('a group does not wait for the calls of another', () => {
  const { calls, ask } = heldCalls();
  for (const request of [1, 2, 3]) void ask('red', request);
  void ask('green', 4);
  expect(calls.map(({ group, requests }) => [group, requests])).toEqual([
    ['red', [1]],
    ['red', [2]],
    ['green', [4]],
  ]);
});

test('a failed call fails only its own requests, and the next ones go out', async () => {
  const { calls, ask } = heldCalls();
  const answers = [1, 2, 3].map((request) => ask('red', request));
  calls[0]?.fail(new Error('lost'));
  await expect(answers[0]).rejects.toThrow('lost');
  expect(calls[2]?.requests).toEqual([3]);
  calls[2]?.end(['three']);
  await expect(answers[2]).resolves.toBe('three');
});

test('a call that answers too few requests fails those without an answer', async () => {
  const { calls, ask } = heldCalls();
  const answer = ask('red', 1);
  calls[0]?.end([]);
  await expect(answer).rejects.toThrow('0 answers to 1 requests');
});
