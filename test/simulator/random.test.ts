import { expect, test } from 'vitest';
import { createRandom } from '../../src/simulator/random.js';

test('gives the published numbers of mulberry32', () => {
  const random = createRandom(1);
  expect([random.next(), random.next(), random.next()].map((number) => number.toFixed(12))).toEqual([
    '0.627073940588',
    '0.002735721180',
    '0.527447039960',
  ]);
});

test('forks by seed and label alone', () => {
  const early = createRandom(7).fork('a');
  const parent = createRandom(7);
  parent.next();
  expect(parent.fork('a').next()).toBe(early.next());
  expect(createRandom(7).fork('b').next()).not.toBe(createRandom(7).fork('a').next());
  expect(createRandom(8).fork('a').next()).not.toBe(createRandom(7).fork('a').next());
});
