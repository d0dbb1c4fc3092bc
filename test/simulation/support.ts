import { expect } from 'vitest';
import { Report } from '../../simulation/report.js';
import { runSeed, type SeedOptions } from '../../simulation/run-seed.js';

/** Runs every seed and returns one report for all. */
export function simulate(seeds: readonly number[], options: Omit<SeedOptions, 'seed'> = {}): Report {
  const report = new Report(options.profile ?? 'chaos', [...(options.broken ?? [])]);
  for (const seed of seeds) report.add(runSeed({ seed, ...options }));
  return report;
}

/** Runs `count` seeds from `first` on, and expects that no promise is broken. */
export function expectRight(first: number, count: number): void {
  const report = simulate(Array.from({ length: count }, (_, index) => first + index));
  expect(report.failures).toMatchObject({
    overBudget: { seeds: 0, examples: [] },
    doubled: { seeds: 0, examples: [] },
    stuck: { seeds: 0, examples: [] },
    lying: { seeds: 0, examples: [] },
  });
  expect(report.counts.posts).toBeGreaterThan(count * 10);
}
