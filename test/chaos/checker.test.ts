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

const withEnding = (delivered: 'yes' | 'no' | 'unknown', ...markers: string[]) =>
  markers.map((marker) => followUp(marker, ended(delivered)));
const refused = (marker: string, receivedAtMs: number) =>
  arrival(marker, receivedAtMs, { accepted: false, status: 429 });
const failed = arrival('a', 5_000, { accepted: false, status: 500 });
const two = [arrival('a', 1_000), arrival('b', 1_050)];
const three = withEnding('unknown', 'a', 'b', 'c');
const allTrue = [...withEnding('yes', 'a'), ...withEnding('no', 'b'), ...withEnding('unknown', 'c')];

test.each<[what: string, found: string[], evidence: Partial<Evidence>]>([
  ['a run in which every answer is true', [], { followUps: allTrue, arrivals: [arrival('a'), arrival('c')] }],
  ['a message that arrives twice', ['doubled'], { followUps: three, arrivals: [arrival('a'), arrival('a', 5_000)] }],
  ['a second arrival that was not accepted', ['doubled'], { followUps: three, arrivals: [arrival('a'), failed] }],
  ['one after a 429', [], { followUps: withEnding('yes', 'a'), arrivals: [refused('a', 500), arrival('a', 5_000)] }],
  ['a "no" for a message that arrived', ['denied'], { followUps: withEnding('no', 'a'), arrivals: [arrival('a')] }],
  ['a "yes" for one that never arrived', ['invented'], { followUps: withEnding('yes', 'a') }],
  ['a "yes" for one that was not accepted', ['invented'], { followUps: withEnding('yes', 'a'), arrivals: [failed] }],
  ['one too many in a window', ['overBudget'], { followUps: three, arrivals: [...two, arrival('c', 1_099)] }],
  ['one at the end of a window', [], { followUps: three, arrivals: [...two, arrival('c', 1_100)] }],
  ['a refused one too many', ['overBudget'], { followUps: three, arrivals: [...two, refused('c', 1_099)] }],
  [
    'one of another project',
    [],
    { followUps: three, arrivals: [...two, arrival('c', 1_099, { projectId: 'another' })] },
  ],
  ['a follow-up that still runs', ['unfinished'], { followUps: [followUp('a')] }],
  ['a message that nobody asked for', ['stray'], { arrivals: [arrival('x')] }],
])('in %s, the checker finds %j', (_what, found, evidence) => expect(kinds(evidence)).toEqual(found));

test('an "unknown" needs a fault during its send', () => {
  const unknown = followUp('a', ended('unknown'), { sends: [{ fromMs: 1_000, toMs: 1_500 }] });
  expect(violations({ followUps: [unknown] })).toMatchObject([
    { kind: 'unaccounted', detail: 'failed; its sends: [{"fromMs":1000,"toMs":1500}]' },
  ]);
  expect(kinds({ followUps: [unknown], faults: [{ fromMs: 1_501, toMs: 1_600 }] })).toEqual(['unaccounted']);
  expect(kinds({ followUps: [unknown], faults: [{ fromMs: 1_200, toMs: 1_200 }] })).toEqual([]);
});

test.each([[1], [null], ['late' as const]])('a worker that was told to end and ended with %s is found', (exitCode) => {
  const departures = [0, exitCode].map((code) => ({ worker: `worker ${code}`, exitCode: code, log: 'its log' }));
  expect(violations({ departures })).toEqual([
    { kind: 'unclean', subject: `worker ${exitCode}`, detail: `${exitCode}: its log` },
  ]);
});

const webhook = (
  id: string,
  status: 'completed' | 'archived',
  answer: ReceivedWebhook['response'],
): ReceivedWebhook => {
  const data = { workflowId: 'w', state: status, status, prLink: null, delivered: 'yes' } as const;
  const body = { type: 'follow-up.ended', timestamp: new Date().toISOString(), data } as const;
  return { path: '/', headers: {}, id, text: '', body, response: answer };
};

test.each<[what: string, found: string[], received: ReceivedWebhook[]]>([
  ['was accepted after two tries', [], [webhook('1', 'completed', 'cut'), webhook('1', 'completed', 204)]],
  ['was never accepted', ['untold'], [webhook('1', 'completed', 503), webhook('1', 'completed', 'cut')]],
  ['a report of another end', ['untold'], [webhook('1', 'archived', 204)]],
  ['a report of another end before a reset', [], [webhook('1', 'archived', 204), webhook('2', 'completed', 204)]],
  ['has two ids', ['renamed'], [webhook('1', 'completed', 204), webhook('2', 'completed', 204)]],
])('of a webhook that %s, the checker finds %j', (_what, found, received) => {
  const ends = [{ workflowId: 'w', how: 'completed', delivered: 'yes' as const }];
  expect(checkWebhooks(ends, received).map(({ kind }) => kind)).toEqual(found);
});

test('a batch needs a webhook of its end', () => {
  const ends = [{ workflowId: 'batch', how: 'batch.ended' }];
  expect(checkWebhooks(ends, [])).toMatchObject([{ kind: 'untold', subject: 'batch' }]);
});

test('a workflow that threw or contradicted its history is found, unless a pause had made its history unreadable', () => {
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
