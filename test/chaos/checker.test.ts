import { expect, test } from 'vitest';
import { check, type Ending, type Evidence, type FollowUpRecord, type Violation } from '../../tools/chaos/checker.js';
import type { Arrival } from '../../tools/chaos/ledger-file.js';

const arrival = (marker: string, receivedAtMs = 1_000, rest: Partial<Arrival> = {}): Arrival => ({
  marker,
  receivedAtMs,
  projectId: 'p',
  accepted: true,
  status: 200,
  ...rest,
});

const ended = (delivered: Ending['delivered'], rest: Partial<Ending> = {}): Ending => ({
  atMs: 2_000,
  kind: delivered === 'yes' ? 'result' : 'failed',
  delivered,
  ...rest,
});

const followUp = (marker: string, ending?: Ending, rest: Partial<FollowUpRecord> = {}): FollowUpRecord => ({
  marker,
  projectId: 'p',
  workflowId: `follow-up/p/job/${marker}`,
  ending,
  ...rest,
});

function violations(evidence: Partial<Evidence>): Violation[] {
  return check({ followUps: [], arrivals: [], limit: 2, windowMs: 100, faults: [], endedByMs: 10_000, ...evidence });
}

const kinds = (evidence: Partial<Evidence>): string[] => violations(evidence).map(({ kind }) => kind);

test('a run in which every answer is true has no violations', () => {
  const followUps = [
    followUp('a', ended('yes')),
    followUp('b', ended('no')),
    followUp('c', ended('unknown', { kind: 'terminated' })),
  ];
  expect(kinds({ followUps, arrivals: [arrival('a'), arrival('c')] })).toEqual([]);
});

test('a message that arrives twice is found, whatever its caller was told', () => {
  for (const delivered of ['yes', 'unknown'] as const) {
    const followUps = [followUp('a', ended(delivered, { kind: 'terminated' }))];
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
  const canceled = followUp('a', ended('no', { kind: 'canceled' }));
  expect(kinds({ followUps: [canceled], arrivals: [arrival('a')] })).toEqual(['denied']);
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
  const followUps = ['a', 'b', 'c'].map((marker) => followUp(marker, ended('unknown', { kind: 'terminated' })));
  const refused = arrival('c', 1_000, { accepted: false, status: 429 });
  expect(kinds({ followUps, arrivals: [arrival('a'), arrival('b'), refused] })).toEqual(['overBudget']);
  expect(kinds({ followUps, arrivals: [arrival('a'), arrival('b'), { ...refused, projectId: 'q' }] })).toEqual([]);
});

test('a follow-up that still runs, or ended too late, is found', () => {
  expect(kinds({ followUps: [followUp('a')] })).toEqual(['unfinished']);
  expect(kinds({ followUps: [followUp('a', ended('no', { atMs: 10_001 }))] })).toEqual(['unfinished']);
});

test('an "unknown" needs a fault during its send', () => {
  const unknown = followUp('a', ended('unknown'), {
    sends: [{ fromMs: 1_000, toMs: 1_500, left: 'no answer in 20 s' }],
  });
  expect(violations({ followUps: [unknown] })).toMatchObject([
    { kind: 'unaccounted', detail: 'failed; no answer in 20 s' },
  ]);
  expect(kinds({ followUps: [unknown], faults: [{ fromMs: 1_501, toMs: 1_600 }] })).toEqual(['unaccounted']);
  expect(kinds({ followUps: [unknown], faults: [{ fromMs: 1_200, toMs: 1_200 }] })).toEqual([]);
});

test('a message that nobody asked for is found', () => {
  expect(kinds({ arrivals: [arrival('x')] })).toEqual(['stray']);
});
