import { expect, test } from 'vitest';
import { breaks, findBreak, withoutRule } from '../../tools/simulation/breaks.js';
import { profiles } from '../../tools/simulation/profiles.js';
import { runSeed } from '../../tools/simulation/seed.js';

const worlds = profiles.filter((profile) => profile !== 'backlog');
/** Seeds of worlds that once were wrong. */
const ONCE = {
  impatient: [7],
  resets: [79, 3035],
  network: [1141],
  'budget-deletions': [8500000831],
  stale: [7000295, 7000357, 1007000129],
  firewall: [612000282],
  'reuse+impatient+network': [902209],
  'reuse+impatient+network+stops': [902101, 902185, 902209],
  'resets+service+stops': [6000000367],
  retold: [5, 19, 27, 36, 410100575, 7000000786],
  revived: [29, 36],
  batch: [181, 212],
  all: [
    1, 3, 4, 83, 1015, 5035, 7000090, 7000111, 11000159, 21000238, 41000310, 51000685, 61000292, 71000503, 71001059,
    75001449, 75002084, 710000517, 1007000341, 8000000037, 8500001066,
  ],
};

/** What is wrong in these worlds: the first of each. */
async function wrongs(worlds: Iterable<readonly [profile: string, seed: number]>): Promise<string[]> {
  const found: string[] = [];
  for (const [profile, seed] of worlds) {
    const [first] = (await runSeed(profile, seed)).found;
    if (first) found.push(`${profile} ${seed}: ${first.verdict} ${first.what}`);
  }
  return found;
}

const seedsFrom = (from: number, count: number) =>
  Array.from({ length: count }, (_, n) => [worlds[n % worlds.length]!, from + n] as const);

test('nothing is wrong in four worlds of each kind of fault', async () => {
  expect(await wrongs(seedsFrom(0, 4 * worlds.length))).toEqual([]);
});

test('nothing is wrong in a thousand more worlds', { tags: 'long' }, async () => {
  expect(await wrongs(seedsFrom(1_000, 1_000))).toEqual([]);
});

test('nothing is wrong in worlds that once were wrong', async () => {
  const once = Object.entries(ONCE).flatMap(([profile, seeds]) => seeds.map((seed) => [profile, seed] as const));
  expect(await wrongs(once)).toEqual([]);
});

test('a backlog uses at least 99 % of the budget', async () => {
  expect(await wrongs([['backlog', 1]])).toEqual([]);
});

test('every rule that can be taken out stands once in its file', () => {
  for (const rule of Object.keys(breaks)) expect(withoutRule(rule).text).not.toBe('');
});

test.each(['count', 'turn', 'pause', 'share'])('the simulation notices that the rule "%s" is missing', async (rule) => {
  expect(await findBreak(rule)).toMatch(/ in seed \d+ of /);
});

test('a seed always has the same trace, and leaves no changed global behind', async () => {
  const { random } = Math;
  for (const profile of ['calm', 'all', 'batch']) {
    const first = await runSeed(profile, 7);
    expect(await runSeed(profile, 7)).toEqual(first);
    expect((await runSeed(profile, 8)).trace).not.toBe(first.trace);
  }
  expect(Math.random).toBe(random);
});
