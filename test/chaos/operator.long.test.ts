import { expect, inject, test } from 'vitest';
import { scenarios } from '../../tools/chaos/scenarios.js';

test('an operator who presses buttons at random repeats nothing, loses nothing, and gets only true answers', async () => {
  const address = inject('temporalAddress');
  const { violations, counts } = await scenarios.operator({
    seed: 1,
    kills: 0,
    scale: 1,
    say: () => undefined,
    address,
  });
  expect(violations).toEqual([]);
  expect(counts).toMatchObject({ followUps: 34 });
}, 400_000);
