import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { SummaryReporter } from './test/support/summary-reporter.js';

export default defineConfig({
  // For the examples: they import the package by its name.
  resolve: {
    alias: {
      'agent-follow-up/client': fileURLToPath(new URL('src/client/index.ts', import.meta.url)),
      'agent-follow-up/contract': fileURLToPath(new URL('src/contract/index.ts', import.meta.url)),
    },
  },
  test: {
    include: ['test/**/*.test.ts'],
    tags: [{ name: 'long' }],
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
