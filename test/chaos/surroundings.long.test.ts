import { expect, test } from 'vitest';
import { network } from '../../tools/chaos/network.js';

test('a network that cuts, swallows and delays calls, and a Temporal server that is killed, repeat and lose nothing', async () => {
  const { violations, counts } = await network({ seed: 1, scale: 1 });
  expect(violations).toEqual([]);
  const once = ['cut', 'blackhole', 'report lost', 'answers lost', 'server killed', 'delay'];
  expect(counts).toMatchObject(Object.fromEntries(once.map((outage) => [outage, 1])));
}, 1_800_000);
