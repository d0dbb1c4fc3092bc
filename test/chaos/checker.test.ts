import { expect, test } from 'vitest';
import { type Arrival, check, type Evidence, type FollowUpRecord, type Violation } from '../../tools/chaos/checker.js';

const arrival = (marker: string, receivedAtMs = 1_000, rest: Partial<Arrival> = {}): Arrival => ({
  prompt: marker,
  receivedAtMs,
  projectId: 'p',
  jobId: marker,
  accepted: true,
  status: 200,
  ...rest,
});

const ended = (delivered: 'yes' | 'no' | 'unknown') => ({ told: 'failed', delivered });

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

test('a run in which every answer is true has no violations', () => {
  const followUps = [followUp('a', ended('yes')), followUp('b', ended('no')), followUp('c', ended('unknown'))];
  expect(kinds({ followUps, arrivals: [arrival('a'), arrival('c')] })).toEqual([]);
});

test('a message that arrives twice is found, whatever its caller was told', () => {
  for (const delivered of ['yes', 'unknown'] as const) {
    const followUps = [followUp('a', ended(delivered))];
    expect(kinds({ followUps, arrivals: [arrival('a'), arrival('a', 5_000)] })).toEqual(['doubled']);
  }
});

test('a second arrival counts even if the job accepted only one', () => {
  const followUps = [followUp('a', ended('yes'))];
  const second = arrival('a', 5_000, { accepted: false, status: 500 });
  expect(kinds({ followUps, arrivals: [arrival('a'), second] })).toEqual(['doubled']);
});

test('a message that was refused with 429 may come again', () => {
  const followUps = [followUp('a', ended('yes'))];
  const refused = arrival('a', 500, { accepted: false, status: 429 });
  expect(kinds({ followUps, arrivals: [refused, arrival('a', 5_000)] })).toEqual([]);
});

test('a "no" for a message that arrived is found', () => {
  expect(kinds({ followUps: [followUp('a', ended('no'))], arrivals: [arrival('a')] })).toEqual(['denied']);
});

test('a "yes" for a message that never arrived, or that the job did not accept, is found', () => {
  const followUps = [followUp('a', ended('yes'))];
  expect(kinds({ followUps })).toEqual(['invented']);
  expect(kinds({ followUps, arrivals: [arrival('a', 1_000, { accepted: false, status: 500 })] })).toEqual(['invented']);
});

test('one message too many in a rolling window is found, and one at its very end is allowed', () => {
  const followUps = ['a', 'b', 'c'].map((marker) => followUp(marker, ended('yes')));
  const at = (last: number) => [arrival('a', 1_000), arrival('b', 1_050), arrival('c', last)];
  expect(kinds({ followUps, arrivals: at(1_099) })).toEqual(['overBudget']);
  expect(kinds({ followUps, arrivals: at(1_100) })).toEqual([]);
});

test('refused messages count against the limit, and each project counts separately', () => {
  const followUps = ['a', 'b', 'c'].map((marker) => followUp(marker, ended('unknown')));
  const refused = arrival('c', 1_000, { accepted: false, status: 429 });
  expect(kinds({ followUps, arrivals: [arrival('a'), arrival('b'), refused] })).toEqual(['overBudget']);
  expect(kinds({ followUps, arrivals: [arrival('a'), arrival('b'), { ...refused, projectId: 'q' }] })).toEqual([]);
});

test('a follow-up that still runs is found', () => {
  expect(kinds({ followUps: [followUp('a')] })).toEqual(['unfinished']);
});

test('an "unknown" needs a fault during its send', () => {
  const unknown = followUp('a', ended('unknown'), {
    sends: [{ fromMs: 1_000, toMs: 1_500 }],
  });
  expect(violations({ followUps: [unknown] })).toMatchObject([
    { kind: 'unaccounted', detail: 'failed; its sends: [{"fromMs":1000,"toMs":1500}]' },
  ]);
  expect(kinds({ followUps: [unknown], faults: [{ fromMs: 1_501, toMs: 1_600 }] })).toEqual(['unaccounted']);
  expect(kinds({ followUps: [unknown], faults: [{ fromMs: 1_200, toMs: 1_200 }] })).toEqual([]);
});

test('a message that nobody asked for is found', () => {
  expect(kinds({ arrivals: [arrival('x')] })).toEqual(['stray']);
});
