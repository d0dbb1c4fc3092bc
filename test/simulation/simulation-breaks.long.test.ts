import { expect, test } from 'vitest';
import { breaks, findBreak } from '../../tools/simulation/breaks.js';

test('at least twenty rules can be taken out', () => {
  expect(Object.keys(breaks).length).toBeGreaterThanOrEqual(20);
});

test.each(Object.keys(breaks))('the simulation notices that the rule "%s" is missing', async (name) => {
  expect(await findBreak(name)).toMatch(/ in seed \d+ of /);
});
