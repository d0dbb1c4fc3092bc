import { PassThrough } from 'node:stream';
import type { WriteStream } from 'node:tty';
import { expect, test } from 'vitest';
import { Output } from '../../src/cli/cli.js';
import { eventually } from '../support/eventually.js';
import { type ProgressRow, showProgress } from '../../src/cli/progress.js';

const HOSTILE = 'stopped\u001b[2J\u001b]0;owned\u0007\u009b31m by\r\nsomebody\u202e';

let shown = '';

/** What a live terminal shows for a row. */
async function shownLive(work: ProgressRow['work']): Promise<string> {
  const terminal = Object.assign(new PassThrough(), { isTTY: true, rows: 24, columns: 120 });
  shown = '';
  terminal.on('data', (chunk: Buffer) => (shown += chunk.toString()));
  const stream = terminal as unknown as WriteStream;
  // stdout is a pipe, because progress goes to stderr.
  await showProgress(new Output({ stdout: new PassThrough(), stderr: stream }, false), [{ label: 'p/j', work }]);
  return shown;
}

test.each<[string, ProgressRow['work']]>([
  ['the error of a row that fails', () => Promise.reject(new Error(HOSTILE))],
  ['the last line of a row', () => Promise.resolve(HOSTILE)],
  [
    'the progress of a row',
    async (report) => {
      report({ headline: HOSTILE, timing: HOSTILE });
      await eventually('it is shown', () => shown.includes('stopped by somebody'));
      return 'done';
    },
  ],
])('a live terminal shows %s without control characters', async (_what, work) => {
  const text = await shownLive(work);
  expect(text).toContain('stopped by somebody');
  for (const control of ['\u001b[2J', '\u001b]0', '\u0007', '\u009b', '\u202e']) expect(text).not.toContain(control);
});
