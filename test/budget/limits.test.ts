import { afterEach, describe, expect, it, vi } from 'vitest';
import { slotEnds } from '../../src/budget/slots.js';
import { type BudgetState, followUpKey, jobKey, type LatestSend } from '../../src/budget/state.js';
import { trim } from '../../src/budget/trim.js';
import { askSchema } from '../../src/protocol/index.js';
import { askOf, Desk, lastTurn, names } from './rules.js';

const MIB = 1_048_576;
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
  const desk = new Desk({ limit: 1 });
  for (const index of [0, 1])
    desk.ask(`${index}`, { runId, messageTag, sendNumber: 1_000, workflowId: workflowId(index) });
  const { state, nowMs } = desk;
  const ids = (from: number, count: number) => Array.from({ length: count }, (_, index) => workflowId(from + index));
  const copies = <T>(all: readonly T[], from: number, count: number) =>
    ids(from, count).map((id) => ({ ...all[0]!, workflowId: id }));
  const turn = { lastTurn: { ...lastTurn, prLink: hash }, latest: hash };
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
    ...{
      spent: Array.from({ length: slots }, () => nowMs),
      unreported: { [hash]: nowMs },
      freed: Array.from({ length: slots }, () => nowMs),
    },
    lastSends: copies(state.lastSends, 2_000, 1_000).map((send) => ({
      ...send,
      outcomeAtMs: nowMs,
      outcome: 'unknown',
    })),
  };
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe('a state with every cap reached', () => {
  it('stays under 1 MiB with the longest ids, and keeps what decides who may send', () => {
    const state = fullState(longest, 10_000);
    expect(JSON.stringify(state).length).toBeGreaterThan(1.5 * MIB);
    const { waiters, grants } = structuredClone(state);
    const ends = slotEnds(state);
    // A workflow task that takes more than a second fails, so this does not write the whole state again and again.
    const written = vi.spyOn(JSON, 'stringify');
    trim(state);
    const length = written.mock.results.reduce((sum, { value }) => sum + String(value).length, 0);
    expect(length).toBeLessThan(24 * MIB);
    expect(JSON.stringify(state).length).toBeLessThan(MIB);
    expect(state).toMatchObject({ waiters, grants });
    expect(slotEnds(state)).toEqual(ends);
  });

  it('keeps all that lives with ordinary ids, and of the rest the newest', () => {
    const state = fullState(ordinary, 400);
    const { waiters, grants } = structuredClone(state);
    const ends = slotEnds(state);
    trim(state);
    expect(JSON.stringify(state).length).toBeLessThan(MIB);
    expect(state).toMatchObject({ waiters, grants });
    expect(slotEnds(state)).toEqual(ends);
    expect(Object.values(state.turns).filter(({ owner }) => owner !== undefined)).toHaveLength(2_400);
    expect(Object.keys(state.latestSends).at(-1)).toBe(followUpKey(ordinary.workflowId(4_999)));
  });

  it('keeps the turns that live of 3,000 jobs, before those that are over', () => {
    const { state } = new Desk();
    const turns = (all: string[], turn: object) => all.map((job) => [job, { latest: job, ...turn }]);
    const live = turns(names('live', 2_990), { owner: 'owner' });
    state.turns = Object.fromEntries([...live, ...turns(names('over', 600), {})]);
    trim(state);
    expect(state.turns).toMatchObject(Object.fromEntries(live));
    expect(Object.keys(state.turns).length).toBeLessThanOrEqual(3_000);
  });

  it('notes since when it remembers all follow-ups, if clocks differ by the margin', () => {
    const state = fullState(longest, 0);
    const grantedAtMs = state.rememberedSinceMs + 5;
    Object.values(state.latestSends)[0]!.grantedAtMs = grantedAtMs;
    trim(state);
    expect(state.rememberedSinceMs).toBe(grantedAtMs + state.settings.marginMs);
  });
});
