import { expect, test } from 'vitest';
import { followUpInputSchema } from '../../src/contract/index.js';
import { FollowUpFlow } from '../../src/follow-up/flow.js';
import type {
  Ending,
  FollowUpPort,
  GetJobResult,
  SendFollowUpInput,
  SendFollowUpResult,
  Steps,
} from '../../src/follow-up/port.js';
import { run } from '../../src/follow-up/run.js';
import { newFollowUpState } from '../../src/follow-up/state.js';

const settings = followUpInputSchema.parse({ projectId: 'p', jobId: 'j', prompt: 'x' });

// eslint-disable-next-line require-yield -- there is nothing to wait for
function* atOnce<T>(value: T): Steps<T> {
  return value;
}

const DONE: GetJobResult = { kind: 'job', job: { id: 'j', status: 'completed' } };

/** Runs a follow-up. Its reads show the job as it is in `reads`, then as completed. Only its own waits take time. */
function runWith(
  send: (input: SendFollowUpInput, flow: FollowUpFlow) => SendFollowUpResult,
  { sends = Infinity, reads = [] }: { sends?: number; reads?: GetJobResult[] } = {},
) {
  const waits: number[] = [];
  const asked: SendFollowUpInput[] = [];
  let nowMs = 0;
  const port = {
    workflowId: 'follow-up/p/j/k',
    replacesRun: false,
    nowMs: () => nowMs,
    random: () => 0.5,
    continueAsNewIsDue: () => asked.length >= sends,
    sleep(ms: number, _summary: string, until: () => boolean) {
      const waitedMs = until() ? 0 : ms;
      waits.push(waitedMs);
      nowMs += waitedMs;
      return atOnce(undefined);
    },
    getJob: () => atOnce(reads.shift() ?? DONE),
    send(input: SendFollowUpInput) {
      asked.push(input);
      return atOnce(send(input, flow));
    },
    tell: () => atOnce(true),
    show: () => undefined,
  } as unknown as FollowUpPort;
  const flow: FollowUpFlow = new FollowUpFlow(
    settings,
    newFollowUpState({ startedAtMs: 0, isFirstRun: true, settings }),
    port,
  );
  const steps = run(flow);
  const step = steps.next();
  if (!step.done) throw new Error('it waits for something that never comes');
  const ending: Ending = step.value;
  return { ending, waits, asked };
}

const QUEUE_FULL = { kind: 'wait', reason: 'queue-full', waitMs: 600_000, position: 1_001, etaMs: null } as const;

test('sends that never leave are repeated after longer and longer waits, up to a minute, although the job can be read', () => {
  const { waits, asked } = runWith(() => ({ kind: 'outcome', outcome: 'notSent', mayArriveForMs: 0 }), { sends: 8 });
  expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
  expect(asked.map(({ sendNumber }) => sendNumber)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
});

test('a follow-up that is cancelled without a place in the queue asks to leave before it says "not delivered"', () => {
  const { ending, asked } = runWith((input, flow) => {
    if (input.withdraw) return { kind: 'closed', proven: true };
    flow.cancel();
    return { ...QUEUE_FULL, ledgerSinceMs: 0, proven: true };
  });
  expect(asked.map(({ withdraw }) => withdraw)).toEqual([undefined, true]);
  expect(ending).toMatchObject({ kind: 'failure', type: 'Cancelled', details: { delivered: 'no' } });
});

test('a follow-up that is cancelled without a place says "unknown" if an earlier ask was granted', () => {
  const { ending } = runWith((input, flow) => {
    if (input.withdraw) return { kind: 'alreadyGranted', leaseLeftMs: 60_000, drainLeftMs: 120_000, proven: true };
    flow.cancel();
    return { ...QUEUE_FULL, ledgerSinceMs: 0, proven: true };
  });
  expect(ending).toMatchObject({ kind: 'failure', type: 'Cancelled', details: { delivered: 'unknown' } });
});

test('a follow-up that is cancelled while its budget is slow waits before each of its last asks', () => {
  const { ending, waits, asked } = runWith((_input, flow) => {
    flow.cancel();
    if (flow.state.askCount === 4) return { kind: 'closed', proven: true };
    return { kind: 'wait', reason: 'slot', waitMs: 20_000, position: 0, etaMs: null, proven: false };
  });
  expect(asked.map(({ withdraw }) => withdraw)).toEqual([undefined, true, true, true]);
  expect(waits).toEqual([0, 5_000, 5_000]);
  expect(ending).toMatchObject({ kind: 'failure', type: 'Cancelled', details: { delivered: 'no' } });
});

test('only reads in a row that find no job end a follow-up before its send', () => {
  const gone: GetJobResult = { kind: 'notFound', message: 'HTTP 404' };
  const failed: GetJobResult = { kind: 'failed', reason: 'service', message: 'HTTP 503' };
  const closed = () => ({ kind: 'closed', proven: true }) as const;
  const notInARow = runWith(closed, { reads: [gone, gone, failed, gone, gone] });
  expect(notInARow).toMatchObject({ asked: [{}], ending: { type: 'Closed' } });
  const inARow = runWith(closed, { reads: [failed, gone, gone, gone] });
  expect(inARow).toMatchObject({ asked: [], ending: { type: 'JobNotFound' } });
});

test.each([
  ['at once when it is woken', true, 0],
  ['after five minutes when it is not woken', false, 300_000],
])('a follow-up in doubt whose budget is silent asks again %s', (_when, isWoken, waitMs) => {
  const { ending, waits } = runWith((_input, flow) => {
    if (flow.state.askCount === 1) return { kind: 'alreadyGranted', leaseLeftMs: 0, drainLeftMs: 0, proven: true };
    if (flow.state.askCount > 2) return { kind: 'closed', proven: true };
    if (isWoken) flow.wake();
    return { kind: 'wait', reason: 'budget-silent', waitMs: 3_000_000, position: 0, etaMs: null, proven: false };
  });
  expect(waits.at(-1)).toBe(waitMs);
  expect(ending).toMatchObject({ kind: 'failure', type: 'DeliveryUnknown' });
});
