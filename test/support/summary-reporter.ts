import type { Reporter, TestModule } from 'vitest/node';

/**
 * Prints every suite that was skipped for want of something, with the fix; then, as the very last line,
 * `N passed, N failed`, and `, N skipped` when some were.
 */
export class SummaryReporter implements Reporter {
  onTestRunEnd(testModules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const testModule of testModules) {
      for (const test of testModule.children.allTests()) {
        const { state } = test.result();
        if (state === 'pending') counts.skipped++;
        else counts[state]++;
      }
      // A file that cannot be loaded, and a hook that fails, fail no test of their own.
      const suites = [testModule, ...testModule.children.allSuites()];
      counts.failed += suites.reduce((sum, suite) => sum + suite.errors().length, 0);
    }
    const skippedSuites = testModules
      .flatMap((testModule) => [...testModule.children.allSuites()])
      .filter((suite) => suite.name.endsWith(']') && suite.state() === 'skipped')
      .map((suite) => `skipped: ${suite.name}\n`);
    const line = `${counts.passed} passed, ${counts.failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ''}`;
    // The other reporters write their own summary in the same event: after them all.
    process.once('exit', () => process.stdout.write(`${skippedSuites.join('')}${line}\n`));
  }
}
