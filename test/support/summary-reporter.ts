import type { Reporter, TestModule } from 'vitest/node';

/**
 * Prints every suite that was skipped because something is missing, with the fix. The very last line is
 * `N passed, N failed`, followed by `, N skipped` if there are any.
 */
export class SummaryReporter implements Reporter {
  onTestRunEnd(testModules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0 };
    for (const testModule of testModules) {
      for (const test of testModule.children.allTests()) {
        const { state } = test.result();
        // `--tags-filter` left it out.
        if (state === 'skipped' && test.tags.includes('long')) continue;
        if (state === 'pending') counts.skipped++;
        else counts[state]++;
      }
      // A file that cannot be loaded and a hook that fails count as no failed test.
      const suites = [testModule, ...testModule.children.allSuites()];
      counts.failed += suites.reduce((sum, suite) => sum + suite.errors().length, 0);
    }
    const skippedSuites = testModules
      .flatMap((testModule) => [...testModule.children.allSuites()])
      .filter((suite) => suite.name.endsWith(']') && suite.state() === 'skipped')
      .map((suite) => `skipped: ${suite.name}\n`);
    const skipped = counts.skipped > 0 ? `${counts.skipped} skipped\n` : '';
    const line = `${counts.passed} passed, ${counts.failed} failed`;
    // The other reporters write their own summaries in the same event. This line comes after all of them.
    process.once('exit', () => process.stdout.write(`${skippedSuites.join('')}${skipped}${line}\n`));
  }
}
