import { defineConfig } from 'vitest/config';
import { SummaryReporter } from './test/support/summary-reporter.js';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    reporters: ['default', new SummaryReporter()],
    pool: 'forks',
    // Files share a process one after another: to import Temporal's packages takes longer than most files run.
    isolate: false,
    // More would make the long tests slower, which keep the cores busy by themselves.
    maxWorkers: 3,
    expect: { poll: { timeout: 120_000 } },
    // Longer than `eventually` and `expect.poll` wait.
    testTimeout: 240_000,
    hookTimeout: 300_000,
  },
});
