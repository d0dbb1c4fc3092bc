import { expect, test } from 'vitest';
import {
  type Arrival,
  check,
  checkWebhooks,
  type Evidence,
  type FollowUpRecord,
  type Violation,
} from '../../tools/chaos/checker.js';
import { contradictionIn } from '../support/contradictions.js';
import type { ReceivedWebhook } from '../support/webhook-receiver.js';

const arrival = (marker: string, receivedAtMs = 1_000, rest: Partial<Arrival> = {}): Arrival => ({
  prompt: marker,
  receivedAtMs,
  projectId: 'p',
  jobId: marker,
  accepted: true,
  status: 200,
  ...rest,
});

const ended = (delivered: 'yes' | 'no' | 'unknown') => ({ how: 'failed', delivered });

const followUp = (
  marker: string,
  ending?: FollowUpRecord['ending'],
  rest: Partial<FollowUpRecord> = {},
): FollowUpRecord => ({
  marker,
  workflowId: `follow-up/p/job/${marker}`,
  ...(ending && { ending }),
  ...rest,
});

function violations(evidence: Partial<Evidence>): Violation[] {
  return check({ followUps: [], arrivals: [], limit: 2, windowMs: 100, faults: [], ...evidence });
}

const kinds = (evidence: Partial<Evidence>): string[] => violations(evidence).map(({ kind }) => kind);

const endedWith = (delivered: 'yes' | 'no' | 'unknown', ...markers: string[]) =>
  markers.map((marker) => followUp(marker, ended(delivered)));
const refusedArrival = (marker: string, receivedAtMs: number) =>
  arrival(marker, receivedAtMs, { accepted: false, status: 429 });
const failedArrival = (marker: string, receivedAtMs: number) =>
  arrival(marker, receivedAtMs, { accepted: false, status: 500 });
// The limit is two messages in 100 ms.
const fullWindow = [arrival('a', 1_000), arrival('b', 1_050)];

test.each<[what: string, evidence: Partial<Evidence>]>([
  [
    'every answer is true',
    {
      followUps: [...endedWith('yes', 'a'), ...endedWith('no', 'b'), ...endedWith('unknown', 'c')],
      arrivals: [arrival('a'), arrival('c')],
    },
  ],
  [
    'a message arrives again after a 429',
    { followUps: endedWith('yes', 'a'), arrivals: [refusedArrival('a', 500), arrival('a', 5_000)] },
  ],
  [
    'a message arrives at the end of a full window',
    { followUps: endedWith('unknown', 'a', 'b', 'c'), arrivals: [...fullWindow, arrival('c', 1_100)] },
  ],
  [
    'the message beyond the limit is of another project',
    {
      followUps: endedWith('unknown', 'a', 'b', 'c'),
      arrivals: [...fullWindow, arrival('c', 1_099, { projectId: 'another' })],
    },
  ],
])('the checker finds nothing if %s', (_what, evidence) => expect(kinds(evidence)).toEqual([]));

test.each<[kind: string, what: string, evidence: Partial<Evidence>]>([
  [
    'doubled',
    'a message arrives twice',
    { followUps: endedWith('unknown', 'a', 'b', 'c'), arrivals: [arrival('a'), arrival('a', 5_000)] },
  ],
  [
    'doubled',
    'a message arrives again, but is not accepted again',
    { followUps: endedWith('unknown', 'a', 'b', 'c'), arrivals: [arrival('a'), failedArrival('a', 5_000)] },
  ],
  [
    'denied',
    'a follow-up says "no" of a message that arrived',
    { followUps: endedWith('no', 'a'), arrivals: [arrival('a')] },
  ],
  ['invented', 'a follow-up says "yes" of a message that never arrived', { followUps: endedWith('yes', 'a') }],
  [
    'invented',
    'a follow-up says "yes" of a message that was not accepted',
    { followUps: endedWith('yes', 'a'), arrivals: [failedArrival('a', 5_000)] },
  ],
  [
    'overBudget',
    'one message too many arrives in a window',
    { followUps: endedWith('unknown', 'a', 'b', 'c'), arrivals: [...fullWindow, arrival('c', 1_099)] },
  ],
  [
    'overBudget',
    'one message too many arrives in a window and is refused',
    { followUps: endedWith('unknown', 'a', 'b', 'c'), arrivals: [...fullWindow, refusedArrival('c', 1_099)] },
  ],
  ['unfinished', 'a follow-up still runs', { followUps: [followUp('a')] }],
  ['stray', 'nobody asked for a message that arrives', { arrivals: [arrival('x')] }],
])('the checker finds "%s" if %s', (kind, _what, evidence) => expect(kinds(evidence)).toEqual([kind]));

test('the checker accepts the delivery "unknown" only if a fault happened during the send', () => {
  const unknown = followUp('a', ended('unknown'), { sends: [{ fromMs: 1_000, toMs: 1_500 }] });
  expect(violations({ followUps: [unknown] })).toMatchObject([
    { kind: 'unaccounted', detail: 'failed; its sends: [{"fromMs":1000,"toMs":1500}]' },
  ]);
  expect(kinds({ followUps: [unknown], faults: [{ fromMs: 1_501, toMs: 1_600 }] })).toEqual(['unaccounted']);
  expect(kinds({ followUps: [unknown], faults: [{ fromMs: 1_200, toMs: 1_200 }] })).toEqual([]);
});

test.each([[1], [null], ['late' as const]])(
  'the checker finds a worker that was asked to end and ended with %s',
  (exitCode) => {
    const departures = [0, exitCode].map((code) => ({ worker: `worker ${code}`, exitCode: code, log: 'its log' }));
    expect(violations({ departures })).toEqual([
      { kind: 'unclean', subject: `worker ${exitCode}`, detail: `${exitCode}: its log` },
    ]);
  },
);

const webhook = (
  id: string,
  status: 'completed' | 'archived',
  answer: ReceivedWebhook['response'],
): ReceivedWebhook => {
  const data = { workflowId: 'w', state: status, status, prLink: null, delivered: 'yes' } as const;
  const body = { type: 'follow-up.ended', timestamp: new Date().toISOString(), data } as const;
  return { path: '/', headers: {}, id, text: '', body, response: answer };
};

const kindsOfWebhooks = (...received: ReceivedWebhook[]) => {
  const ends = [{ workflowId: 'w', how: 'completed', delivered: 'yes' as const }];
  return checkWebhooks(ends, received).map(({ kind }) => kind);
};

test.each<[what: string, ...received: ReceivedWebhook[]]>([
  ['is accepted at the second try', webhook('1', 'completed', 'cut'), webhook('1', 'completed', 204)],
  ['reported another end before a reset', webhook('1', 'archived', 204), webhook('2', 'completed', 204)],
])('the checker finds nothing if a webhook %s', (_what, ...received) => {
  expect(kindsOfWebhooks(...received)).toEqual([]);
});

test.each<[kind: string, what: string, ...received: ReceivedWebhook[]]>([
  ['unreported', 'is never accepted', webhook('1', 'completed', 503), webhook('1', 'completed', 'cut')],
  ['unreported', 'reports another end', webhook('1', 'archived', 204)],
  ['renamed', 'has two ids', webhook('1', 'completed', 204), webhook('2', 'completed', 204)],
])('the checker finds "%s" if a webhook %s', (kind, _what, ...received) => {
  expect(kindsOfWebhooks(...received)).toEqual([kind]);
});

test('the checker finds a batch without a webhook of its end', () => {
  const ends = [{ workflowId: 'batch', how: 'batch.ended' }];
  expect(checkWebhooks(ends, [])).toMatchObject([{ kind: 'unreported', subject: 'batch' }]);
});

test('a workflow that threw or contradicted its history is found, unless a pause had made the history unreadable', () => {
  const failures = (...causes: number[]) =>
    contradictionIn(
      'workflow',
      causes.map((cause) => ({ workflowTaskFailedEventAttributes: { cause } })),
    );
  const [THREW, CONTRADICTED, PAUSED, REPEATED] = [14, 24, 39, 1];
  for (const cause of [THREW, CONTRADICTED]) {
    expect(failures(REPEATED, cause, cause, PAUSED)).toMatchObject([{ kind: 'contradicted', subject: 'workflow' }]);
    expect(failures(REPEATED, PAUSED, cause)).toEqual([]);
  }
});
