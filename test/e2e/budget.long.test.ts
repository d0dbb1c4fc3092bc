import { expect, inject, test } from 'vitest';
import { createRandom } from '../../src/simulator/random.js';
import { shareLimiter } from '../simulator/limiters.js';
import { FAST, startStack } from '../support/stack.js';

const LIMIT = 5;
const WINDOW_MS = 5_000;
const MESSAGES = 20;

test.concurrent.each([
  { kind: 'sliding', retryAfter: 'none', share: 0 },
  { kind: 'sliding', retryAfter: 'none', share: 0.3 },
  { kind: 'fixed', retryAfter: 'seconds', share: 0.3 },
  { kind: 'token-bucket', retryAfter: 'date', share: 0.3 },
  { kind: 'weighted', retryAfter: 'none', share: 0.3 },
] as const)(
  'nothing is lost or repeated with a $kind limit, Retry-After $retryAfter, and a share of $share spent by others',
  async ({ kind, retryAfter, share }) => {
    const random = createRandom(Date.now());
    const createLimiter = () => shareLimiter({ kind, limit: LIMIT, windowMs: WINDOW_MS }, share, random, Date.now());
    const { simulator, followUps, stop } = await startStack({
      address: inject('temporalAddress'),
      env: { FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`, FOLLOW_UP_BUDGET_WINDOW: '5s', FOLLOW_UP_MARGIN: '200ms' },
      simulator: { retryAfter, autoCreate: true },
      hooks: { createLimiter },
    });
    try {
      const projectId = `${kind}-${Date.now()}`;
      const jobIds = Array.from({ length: MESSAGES }, (_, index) => `job-${index}`);
      const input = { projectId, prompt: 'x', ...FAST };
      const results = await Promise.all(jobIds.map((jobId) => followUps.run({ ...input, jobId })));
      expect(results.map(({ status, delivery }) => `${status} ${delivery}`)).toEqual(
        jobIds.map(() => 'completed sent'),
      );
      const delivered = simulator.ledger.filter(({ accepted }) => accepted).map(({ jobId }) => jobId);
      expect(delivered.sort()).toEqual(jobIds.sort());
      expect(simulator.maxInAnyWindow(projectId, WINDOW_MS)).toBeLessThanOrEqual(LIMIT);
      if (share > 0) return;
      expect(simulator.ledger).toHaveLength(MESSAGES);
      // Four windows are enough if freed slots are used. The rest is for a busy machine.
      const times = simulator.ledger.map(({ receivedAtMs }) => receivedAtMs);
      expect(Math.max(...times) - Math.min(...times)).toBeLessThan(12 * WINDOW_MS);
    } finally {
      await stop();
    }
  },
  // A 429 without a Retry-After pauses the project for at least 30 s.
  900_000,
);
