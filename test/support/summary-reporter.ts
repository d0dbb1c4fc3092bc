import type { Reporter, TestModule } from 'vitest/node';

/** Prints `N passed, N failed` as the very last line, and `, N skipped` when some were. */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(testModules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const testModule of testModules) {
      let tests = 0;
      for (const test of testModule.children.allTests()) {
        tests++;
        const { state } = test.result();
        if (state === 'pending') counts.skipped++;
        else counts[state]++;
      }
      // A file that could not be loaded, or a hook that failed, fails no test of its own.
      const failedOutsideTests = testModule.errors().length;
      if (failedOutsideTests > 0 || (tests === 0 && testModule.state() === 'failed')) {
        counts.failed += Math.max(1, failedOutsideTests);
      }
    }
    const line = `${counts.passed} passed, ${counts.failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ''}`;
    // The other reporters write their own summary in the same event: after them all.
    process.once('exit', () => process.stdout.write(`${line}\n`));
  }
}
