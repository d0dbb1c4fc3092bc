import { describe, expect, it, vi } from 'vitest';
import { type BudgetState, followUpKey, jobKey, type LatestSend } from '../../src/budget/state.js';
import { trim } from '../../src/budget/trim.js';
import { askSchema } from '../../src/protocol/index.js';
import { askOf, jobAtEnd, names, TestBudget } from './support.js';

const MIB = 1_048_576;
/** Temporal refuses inputs above 2 MiB, and a codec in Base64 makes them a third longer. */
const MAX_LENGTH = 1.5 * MIB;
const hash = 'abcdefghijk';
const uuid = (index: number) => `${String(index).padStart(8, '0')}-1234-4234-8234-123456789abc`;
const ordinary = {
  workflowId: (index: number) => `follow-up/${uuid(0)}/${uuid(index)}/${uuid(index)}`,
  ...{ runId: uuid(0), messageTag: hash },
};
/** As long as the schema lets them be. */
const longestText = (field: 'runId' | 'messageTag') => {
  const texts = Array.from({ length: 255 }, (_, index) => 'x'.repeat(index + 1));
  return texts.findLast((text) => askSchema.safeParse({ ...askOf('a'), [field]: text }).success)!;
};
const longest = {
  workflowId: (index: number) => `follow-up/project/${index}/`.padEnd(255, 'x'),
  ...{ runId: longestText('runId'), messageTag: longestText('messageTag') },
};

/** A state that has reached every cap with copies of one send and one waiter: 600 turns are over, 2,400 live. */
function fullState({ workflowId, runId, messageTag }: typeof ordinary, slots: number): BudgetState {
  const budget = new TestBudget({ limit: 1 });
  budget.ask('granted', { runId, messageTag, sendNumber: 1_000, workflowId: workflowId(0) });
  budget.ask('waiting', { runId, messageTag, sendNumber: 1_000, workflowId: workflowId(1) });
  const { state, nowMs } = budget;
  const ids = (from: number, count: number) => Array.from({ length: count }, (_, index) => workflowId(from + index));
  const copies = <T>(all: readonly T[], from: number, count: number) =>
    ids(from, count).map((id) => ({ ...all[0]!, workflowId: id }));
  const turn = { previousEnd: { ...jobAtEnd, prLink: hash }, latest: hash };
  const turns = ids(0, 3_000).map((id, index) => [jobKey(id), { ...turn, ...(index >= 600 && { owner: id }) }]);
  const sends = ids(1_000, 1_900).map((id): [string, LatestSend] => [
    followUpKey(id),
    { ...Object.values(state.latestSends)[0]!, grantedAtMs: nowMs },
  ]);
  // The service refuses the messages of a hundred jobs, again and again.
  const refusals = { reason: 'credentials', statusCode: 403, count: 9, lastAtMs: nowMs, isAlone: true } as const;
  const refused = copies(state.waiters, 4_900, 100).map((waiter) => {
    sends.push([followUpKey(waiter.workflowId), { ...sends[0]![1], refusals }]);
    return { ...waiter, refusals };
  });
  return {
    ...state,
    ...{ latestSends: Object.fromEntries(sends), turns: Object.fromEntries(turns) },
    ...{ grants: copies(state.grants, 2_990, 10), waiters: [...copies(state.waiters, 4_000, 900), ...refused] },
    turnedAway: ids(5_000, 200).map((id) => ({
      ...{ workflowId: id, job: jobKey(id), lane: 'interactive', startedAtMs: nowMs, calledAtMs: nowMs },
    })),
    ...{
      spent: Array.from({ length: slots }, () => nowMs),
      freed: Array.from({ length: slots }, (_, index) => nowMs + index),
    },
    shownSends: copies(state.shownSends, 2_000, Math.min(1_000, slots)).map((send) => ({
      ...send,
      outcomeAtMs: nowMs,
      outcome: 'unknown',
    })),
  };
}

/** Trims a copy of a state. Also returns how many characters of JSON that wrote. */
function trimmed(full: BudgetState) {
  const state = structuredClone(full);
  const written = vi.spyOn(JSON, 'stringify');
  trim(state);
  const writtenLength = written.mock.results.reduce((sum, { value }) => sum + String(value).length, 0);
  written.mockRestore();
  return { full, state, writtenLength };
}

const ofLongestIds = trimmed(fullState(longest, 10_000));
const ofOrdinaryIds = trimmed(fullState(ordinary, 400));
const both = [
  ['the longest ids', ofLongestIds],
  ['ordinary ids', ofOrdinaryIds],
] as const;

describe('a trimmed state', () => {
  it.each(both)('is shorter than 1.5 MiB with every cap reached and %s', (_, { state }) => {
    expect(JSON.stringify(state).length).toBeLessThan(MAX_LENGTH);
  });

  it.each(both)('keeps what decides who may send, with every cap reached and %s', (_, { full, state }) => {
    expect(state).toMatchObject({ waiters: full.waiters, grants: full.grants, spent: full.spent, freed: full.freed });
  });

  it('takes less than 24 MiB of written JSON, because a workflow task has only a second', () => {
    expect(JSON.stringify(ofLongestIds.full).length).toBeGreaterThan(MAX_LENGTH);
    expect(ofLongestIds.writtenLength).toBeLessThan(24 * MIB);
  });

  it('keeps all turns that are not over if the ids are ordinary', () => {
    const live = Object.values(ofOrdinaryIds.state.turns).filter(({ owner }) => owner !== undefined);
    expect(live).toHaveLength(2_400);
  });

  it('keeps the latest send', () => {
    expect(Object.keys(ofOrdinaryIds.state.latestSends).at(-1)).toBe(followUpKey(ordinary.workflowId(4_999)));
  });

  it('keeps the latest sends of 2,000 follow-ups if it is short', () => {
    const { state } = new TestBudget();
    const send = { runId: '', sendNumber: 1, grantedAtMs: 0, overAtMs: 0, messageTag: '', isClaimed: true };
    state.latestSends = Object.fromEntries(names('a', 2_500).map((key) => [key, send]));
    trim(state);
    expect(Object.keys(state.latestSends)).toEqual(names('a', 2_500).slice(-2_000));
  });

  it('keeps the turns of 3,000 jobs, first those that are not over', () => {
    const { state } = new TestBudget();
    const turns = (jobs: string[], turn: object) => jobs.map((job) => [job, { latest: job, ...turn }]);
    const live = turns(names('live', 2_990), { owner: 'owner' });
    state.turns = Object.fromEntries([...live, ...turns(names('over', 600), {})]);
    trim(state);
    expect(state.turns).toMatchObject(Object.fromEntries(live));
    expect(Object.keys(state.turns)).toHaveLength(3_000);
  });

  it('remembers all sends since the latest one that it forgot and a margin between clocks', () => {
    const state = fullState(longest, 0);
    const grantedAtMs = state.rememberedSinceMs + 5;
    Object.values(state.latestSends)[0]!.grantedAtMs = grantedAtMs;
    trim(state);
    expect(state.rememberedSinceMs).toBe(grantedAtMs + state.settings.marginMs);
  });
});
