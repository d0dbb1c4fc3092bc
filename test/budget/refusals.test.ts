import { describe, expect, it } from 'vitest';
import { describeBudget } from '../../src/budget/budget-details.js';
import { budgetStatus } from '../../src/budget/status.js';
import { HOUR, MINUTE, SECOND, T0 } from './rules.js';
import { type Response, VirtualProject } from './virtual-project.js';

const SENT: Response = { outcome: 'sent', statusCode: 200 };
const FORBIDDEN: Response = { outcome: 'credentials', statusCode: 403 };
const isBad = (name: string) => name.startsWith('bad');
const isGood = (name: string) => name.startsWith('good');
const quantile = (sorted: readonly number[], share: number) => sorted[Math.ceil(share * sorted.length) - 1] ?? NaN;

describe('messages that the service refuses while it accepts others', () => {
  it.each([MINUTE, HOUR])('delay no others by their Retry-After of %i ms', (retryAfterMs) => {
    const respond = (name: string) => (isBad(name) ? { ...FORBIDDEN, retryAfterMs } : SENT);
    const project = new VirtualProject({ seed: 1, respond });
    for (let i = 0; i < 28; i++) project.start(`${i % 7 < 2 ? 'bad' : 'good'}${i}`, i);
    expect(project.run(2 * MINUTE).accepted()).toHaveLength(20);
  });

  it.each([1, 2, 3, 4, 5, 6, 7, 8])('eight of 28 do not delay the others by more than two minutes (%i)', (seed) => {
    const project = new VirtualProject({ seed, respond: (name) => (isBad(name) ? FORBIDDEN : SENT) });
    // Another mixture for each seed.
    for (let i = 0; i < 28; i++) project.start(`${(i * 5 + seed) % 7 < 2 ? 'bad' : 'good'}${i}`, i, 'batch');
    project.run(2 * MINUTE);
    expect([...project.startedAtMs.keys()].filter(isBad)).toHaveLength(8);
    expect(project.accepted()).toHaveLength(20);
    const status = budgetStatus('project', project.budget.state, project.nowMs);
    expect(status.refused).toEqual([{ reason: 'credentials', statusCode: 403, messages: 8, of: 28, accepted: 20 }]);
    expect(describeBudget(status, project.nowMs)).toContain('403 to 8 of 28 messages (others are accepted)');
  });

  it('one does not delay an interactive message that is started beside it', () => {
    const project = new VirtualProject({ seed: 1, respond: (name) => (isBad(name) ? FORBIDDEN : SENT) });
    project.start('bad');
    project.start('good', SECOND);
    project.run(5 * SECOND);
    expect(project.accepted()).toMatchObject([{ name: 'good' }]);
  });

  it('no longer delay a new one after all others were sent', () => {
    const project = new VirtualProject({ seed: 1, respond: (name) => (isBad(name) ? FORBIDDEN : SENT) });
    for (let i = 0; i < 4; i++) project.start(`bad${i}`, i);
    project.run(HOUR).start('good');
    project.run(2 * MINUTE);
    expect(project.accepted()).toHaveLength(1);
  });

  /** A day with 60 good messages an hour. */
  function playDay(bad: number, response: Response): number[] {
    const project = new VirtualProject({ seed: bad, respond: (name) => (isBad(name) ? response : SENT) });
    for (let i = 0; i < bad; i++) project.start(`bad${i}`, i);
    for (let i = 0; i < 24 * 60; i++) project.start(`good${i}`, i * MINUTE + (i % 7) * SECOND);
    return project.run(24 * HOUR).waitsMs(isGood);
  }

  it('ten that are refused for ever delay the others by at most 2 min in half of all cases, and 10 min in 95 %', () => {
    const waitsMs = playDay(10, FORBIDDEN);
    expect(quantile(waitsMs, 0.5)).toBeLessThan(2 * MINUTE);
    expect(quantile(waitsMs, 0.95)).toBeLessThan(10 * MINUTE);
  });

  it.each([
    ['fifty that get 403', 50, FORBIDDEN],
    ['one that gets 429 with an hour of Retry-After', 1, { outcome: 'limited', retryAfterMs: HOUR }],
    ['twenty that get 429', 20, { outcome: 'limited' }],
    ['twenty that get 429 with an hour of Retry-After', 20, { outcome: 'limited', retryAfterMs: HOUR }],
  ] as const)('%s for ever leave at least 95 percent of the others sent within a day', (_, bad, response) => {
    const waitsMs = playDay(bad, response);
    expect(waitsMs.filter((waitMs) => waitMs < Infinity).length / waitsMs.length).toBeGreaterThanOrEqual(0.95);
  });
});

describe('a service that refuses all messages', () => {
  it.each([
    ['a revoked key', { outcome: 'credentials', statusCode: 401 }],
    ['an account out of credit', { outcome: 'payment', statusCode: 402 }],
  ] as const)('because of %s gets one probe a pause, and all when it accepts them again', (_, response) => {
    const mendedAtMs = T0 + 3 * HOUR;
    const project = new VirtualProject({ seed: 1, respond: (_, nowMs) => (nowMs < mendedAtMs ? response : SENT) });
    for (let i = 0; i < 50; i++) project.start(`job${i}`, i);
    project.run(3 * HOUR);
    // Ten are under way at first. The pauses grow from 1 s to 10 min.
    expect(project.sends.length).toBeLessThanOrEqual(10 + 5 + (3 * HOUR) / (10 * MINUTE));
    expect(budgetStatus('project', project.budget.state, project.nowMs).paused?.reasons).toEqual([response.outcome]);
    project.run(11 * MINUTE);
    expect(project.accepted()).toHaveLength(50);
  });

  it('with 503 leaves few messages unknown, and names the status', () => {
    const respond = (): Response => ({ outcome: 'unknown', statusCode: 503 });
    const project = new VirtualProject({ seed: 1, respond });
    for (let i = 0; i < 120; i++) project.start(`job${i}`, i);
    project.run(30 * MINUTE);
    expect(project.sends.length).toBeLessThanOrEqual(15);
    const { paused, refused } = budgetStatus('project', project.budget.state, project.nowMs);
    expect(paused?.reasons).toEqual(['outage']);
    expect(refused).toMatchObject([{ reason: 'outage', statusCode: 503 }]);
  });
});
