import { describe, expect, inject, test } from 'vitest';
import { steps } from '../../tools/chaos/worker-process.js';
import { batch, freeze, kill, restart } from '../../tools/chaos/workers.js';

const TIMEOUT_MS = 1_800_000;
const run = () => ({ seed: 1, scale: 1, address: inject('temporalAddress') });

// Most of the time, they wait for leases to end.
describe.concurrent('nothing is repeated, lost, sent over budget or falsely reported', () => {
  test(
    'while workers are killed at every step of the send path, and while they recover',
    { timeout: TIMEOUT_MS },
    async () => {
      const { violations, counts } = await kill(run());
      expect(violations).toEqual([]);
      expect(Object.keys(counts).filter((what) => what.startsWith('at '))).toHaveLength(steps.length);
    },
  );

  test(
    'while workers are frozen for longer than a lease, and continue after others have taken over',
    { timeout: TIMEOUT_MS },
    async () => {
      const { violations, counts } = await freeze(run());
      expect(violations).toEqual([]);
      expect(Object.keys(counts).filter((what) => what.startsWith('at '))).toHaveLength(5);
    },
  );

  test('while the two workers of a batch of 200 items are killed', { timeout: TIMEOUT_MS }, async () => {
    const { violations, counts } = await batch(run());
    expect(violations).toEqual([]);
    expect(counts['kills']).toBeGreaterThanOrEqual(1);
    expect(counts['followUps']).toBe(200);
    expect(counts['webhooks']).toBe(201);
  });
});

test(
  'workers that are replaced three times while 100 follow-ups run leave no delivery unknown',
  { timeout: TIMEOUT_MS },
  async () => {
    const { violations, counts } = await restart(run());
    expect(violations).toEqual([]);
    expect(counts).toEqual({ restarts: 3, followUps: 100, 'delivered: yes': 100, webhooks: 100 });
  },
);
