import { describe, expect, test } from 'vitest';
import { ProjectBudget } from '../../src/simulator/limiter.js';
import { createRandom, pickByWeight } from '../../src/simulator/random.js';

describe('seeded randomness', () => {
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

  test('picks by weight, and never an item without weight', () => {
    const random = createRandom(3);
    const picked = { a: 0, b: 0, c: 0 };
    for (let index = 0; index < 4_000; index++) picked[pickByWeight({ a: 3, b: 1, c: 0 }, random)]++;
    expect(picked.c).toBe(0);
    expect(picked.a / picked.b).toBeGreaterThan(2.6);
    expect(picked.a / picked.b).toBeLessThan(3.4);
  });
});

describe('the budget of a project', () => {
  const limiter = { kind: 'sliding', limit: 100, windowMs: 1_000 } as const;

  test('is spent by others at about their share, and in the same way for the same seed', () => {
    const outsiders = [1, 1, 2].map((seed) => {
      const budget = new ProjectBudget(limiter, { share: 0.3 }, createRandom(seed), 0);
      budget.take(20_000);
      return budget.outsiderRequests;
    });
    expect(outsiders[0]).toBe(outsiders[1]);
    expect(outsiders[0]).not.toBe(outsiders[2]);
    expect(outsiders[0]).toBeGreaterThan(500);
    expect(outsiders[0]).toBeLessThan(700);
  });

  test('keeps its count when the limit changes', () => {
    const budget = new ProjectBudget(limiter, { share: 0 }, createRandom(1), 0);
    for (let index = 0; index < 5; index++) budget.take(index);
    budget.reconfigure({ ...limiter, limit: 6 }, { share: 0 }, 10);
    expect(budget.take(10).taken).toBe(true);
    expect(budget.take(10)).toEqual({ taken: false, availableInMs: 990 });
  });
});
