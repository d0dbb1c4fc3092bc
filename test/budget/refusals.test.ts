import { describe, expect, it } from 'vitest';
import { describeBudget } from '../../src/budget/budget-details.js';
import { toMarkdown } from '../../src/common/index.js';
import { HOUR, MINUTE, SECOND } from '../support/times.js';
import { T0 } from './support.js';
import { type Response, VirtualProject } from './virtual-project.js';

const SENT: Response = { outcome: 'sent', statusCode: 200 };
const FORBIDDEN: Response = { outcome: 'credentials', statusCode: 403 };
const isBad = (name: string) => name.startsWith('bad');
const isGood = (name: string) => name.startsWith('good');

/** A project whose service always gives this response to messages with `bad` names, and accepts all others. */
const projectThatRefuses = (response: Response, seed = 1): VirtualProject =>
  new VirtualProject({ seed, respond: (name) => (isBad(name) ? response : SENT) });

describe('8 of 28 messages that are always refused', () => {
  /** Starts the messages one after another. Each seed mixes good and bad ones otherwise. */
  function startMixture(project: VirtualProject, seed: number): void {
    for (let i = 0; i < 28; i++) project.start(`${(i * 5 + seed) % 7 < 2 ? 'bad' : 'good'}${i}`, i, 'batch');
  }
  const seeds = [1, 2, 3, 4, 5, 6, 7, 8];

  it.each(seeds)('delay the other 20 by less than two minutes (mixture %i)', (seed) => {
    const project = projectThatRefuses(FORBIDDEN, seed);
    startMixture(project, seed);
    project.run(2 * MINUTE);
    expect([...project.startedAtMs.keys()].filter(isBad)).toHaveLength(8);
    expect(project.accepted()).toHaveLength(20);
  });

  it.each(seeds)('are counted in the status and its description (mixture %i)', (seed) => {
    const project = projectThatRefuses(FORBIDDEN, seed);
    startMixture(project, seed);
    project.run(2 * MINUTE);
    const status = project.budget.status();
    expect(status.refused).toEqual([{ reason: 'credentials', statusCode: 403, messages: 8, of: 28, accepted: 20 }]);
    const details = toMarkdown((at) => describeBudget(status, at), project.nowMs);
    expect(details).toContain('403 to 8 of 28 messages (others are accepted)');
  });

  it.each([
    ['a minute', MINUTE],
    ['an hour', HOUR],
  ])('do not delay the other 20 by their Retry-After of %s', (_, retryAfterMs) => {
    const project = projectThatRefuses({ ...FORBIDDEN, retryAfterMs });
    for (let i = 0; i < 28; i++) project.start(`${i % 7 < 2 ? 'bad' : 'good'}${i}`, i);
    expect(project.run(2 * MINUTE).accepted()).toHaveLength(20);
  });
});

describe('a message that is always refused', () => {
  it('does not delay an interactive message that is started a second later', () => {
    const project = projectThatRefuses(FORBIDDEN);
    project.start('bad');
    project.start('good', SECOND);
    project.run(5 * SECOND);
    expect(project.accepted()).toMatchObject([{ name: 'good' }]);
  });
});

describe('four messages that are always refused', () => {
  it('delay a new message by less than two minutes when they wait alone', () => {
    const project = projectThatRefuses(FORBIDDEN);
    for (let i = 0; i < 4; i++) project.start(`bad${i}`, i);
    project.run(HOUR).start('good');
    project.run(2 * MINUTE);
    expect(project.accepted()).toMatchObject([{ name: 'good' }]);
  });
});

describe('60 good messages an hour', () => {
  /** Returns how long each good message of a day waited beside so many bad ones, the shortest first. */
  function waitsBesideBad(bad: number, response: Response): number[] {
    const project = projectThatRefuses(response, bad);
    for (let i = 0; i < bad; i++) project.start(`bad${i}`, i);
    for (let i = 0; i < 24 * 60; i++) project.start(`good${i}`, i * MINUTE + (i % 7) * SECOND);
    return project.run(24 * HOUR).waitsMs(isGood);
  }
  const quantile = (sorted: readonly number[], share: number) => sorted[Math.ceil(share * sorted.length) - 1] ?? NaN;

  it('wait less than 2 minutes (half of them) or 10 (95 percent) beside ten that always get 403', () => {
    const waitsMs = waitsBesideBad(10, FORBIDDEN);
    expect(quantile(waitsMs, 0.5)).toBeLessThan(2 * MINUTE);
    expect(quantile(waitsMs, 0.95)).toBeLessThan(10 * MINUTE);
  });

  it.each([
    ['fifty that always get 403', 50, FORBIDDEN],
    ['one that always gets 429 with a Retry-After of an hour', 1, { outcome: 'limited', retryAfterMs: HOUR }],
    ['twenty that always get 429', 20, { outcome: 'limited' }],
    ['twenty that always get 429 with a Retry-After of an hour', 20, { outcome: 'limited', retryAfterMs: HOUR }],
  ] as const)('are sent within a day (at least 95 percent) beside %s', (_, bad, response) => {
    const waitsMs = waitsBesideBad(bad, response);
    const sentMs = waitsMs.filter((waitMs) => waitMs < Infinity);
    expect(sentMs.length / waitsMs.length).toBeGreaterThanOrEqual(0.95);
  });
});

describe.each([
  ['a revoked key', { outcome: 'credentials', statusCode: 401 }],
  ['an account without credit', { outcome: 'payment', statusCode: 402 }],
] as const)('a service that refuses all messages because of %s', (_, response) => {
  const mendedAtMs = T0 + 3 * HOUR;

  /** Fifty messages, after three hours. */
  function projectAfterThreeHours(): VirtualProject {
    const project = new VirtualProject({ seed: 1, respond: (_, nowMs) => (nowMs < mendedAtMs ? response : SENT) });
    for (let i = 0; i < 50; i++) project.start(`job${i}`, i);
    return project.run(3 * HOUR);
  }

  it('receives one message in each pause', () => {
    const project = projectAfterThreeHours();
    // Ten are under way at first. The pauses grow from 1 s to 10 min.
    expect(project.sends.length).toBeLessThanOrEqual(10 + 5 + (3 * HOUR) / (10 * MINUTE));
  });

  it('is shown as the reason of the pause', () => {
    expect(projectAfterThreeHours().budget.status().paused?.reasons).toEqual([response.outcome]);
  });

  it('receives all messages soon after it accepts them again', () => {
    const project = projectAfterThreeHours();
    project.run(11 * MINUTE);
    expect(project.accepted()).toHaveLength(50);
  });
});

describe('a service that answers all messages with 503', () => {
  /** 120 messages, after half an hour. */
  function projectAfterHalfAnHour(): VirtualProject {
    const project = new VirtualProject({ seed: 1, respond: () => ({ outcome: 'unknown', statusCode: 503 }) });
    for (let i = 0; i < 120; i++) project.start(`job${i}`, i);
    return project.run(30 * MINUTE);
  }

  it('leaves at most 15 of 120 messages with an unknown outcome', () => {
    expect(projectAfterHalfAnHour().sends.length).toBeLessThanOrEqual(15);
  });

  it('is shown as an outage with its HTTP status', () => {
    const { paused, refused } = projectAfterHalfAnHour().budget.status();
    expect(paused?.reasons).toEqual(['outage']);
    expect(refused).toMatchObject([{ reason: 'outage', statusCode: 503 }]);
  });
});
