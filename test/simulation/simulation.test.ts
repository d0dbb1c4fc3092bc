import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { profiles } from '../../tools/simulation/faults.js';
import { runSeed } from '../../tools/simulation/seed.js';

/** `node tools/simulation/run.js` runs any number. */
const SEEDS = 500;

const worlds = profiles.filter((profile) => profile !== 'backlog');
const profileOf = (seed: number) => worlds[seed % worlds.length]!;
/** `[profile, seed]` of worlds that once showed a fault. */
const once = JSON.parse(readFileSync(new URL('simulation-failing-seeds.json', import.meta.url), 'utf8')) as [
  string,
  number,
][];

/** The first that is wrong in each of the first ten wrong worlds. */
async function wrongs(worlds: Iterable<[profile: string, seed: number]>): Promise<string[]> {
  const found: string[] = [];
  for (const [profile, seed] of worlds) {
    const [first] = (await runSeed(profile, seed)).found;
    if (first) found.push(`${profile} ${seed}: ${first.verdict} ${first.what}`);
    if (found.length === 10) break;
  }
  return found;
}

test(`under faults of every kind, nothing is wrong in ${SEEDS} worlds`, async () => {
  const seeds = Array.from({ length: SEEDS }, (_, seed): [string, number] => [profileOf(seed), seed]);
  expect(await wrongs(seeds)).toEqual([]);
});

test('nothing is wrong in worlds that once showed a fault', async () => {
  expect(await wrongs(once)).toEqual([]);
});

test('a backlog uses at least 99 % of the budget', async () => {
  expect(await wrongs([['backlog', 1]])).toEqual([]);
});

test('the same seed has the same trace', async () => {
  for (const profile of ['calm', 'all']) {
    const [first, again] = [await runSeed(profile, 7), await runSeed(profile, 7)];
    expect(again).toEqual(first);
    expect((await runSeed(profile, 8)).trace).not.toBe(first.trace);
  }
});

test('a world leaves no changed global behind', async () => {
  const { random } = Math;
  await runSeed('all', 1);
  expect(Math.random).toBe(random);
});
