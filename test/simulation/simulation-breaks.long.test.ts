import { expect, test } from 'vitest';
import { breaks, findBreak } from '../../tools/simulation/breaks.js';

test.each(Object.keys(breaks))('the simulation notices that the rule "%s" is missing', async (rule) => {
  expect(await findBreak(rule)).toMatch(/ in seed \d+ of /);
});
