import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { Output } from '../../src/cli/cli.js';
import { fitFrame, type ProgressRow, showLive, showProgress } from '../../src/cli/progress.js';
import { keepSecret } from '../../src/secrets.js';
import { eventually } from '../support/eventually.js';

const HOSTILE = 'stopped\u001b[2J\u001b]0;owned\u0007\u009b31m by\r\nsomebody\u202e';
type Work = ProgressRow<string>['work'];
const row = (label: string, work: Work): ProgressRow<string> => ({ label, work, summarise: (last) => last });

/** A live terminal, an output whose stderr it is, and what was written to it. */
function open({ columns = 80 } = {}) {
  const writes: string[] = [];
  const terminal = Object.assign(new PassThrough(), { isTTY: true, rows: 24, columns });
  terminal.on('data', (chunk: Buffer) => writes.push(chunk.toString().replaceAll('\u001b', '␛')));
  const output = new Output({ stdout: new PassThrough(), stderr: terminal, command: 'npx follow-up' }, false);
  output.commandNames = ['doctor'];
  return { terminal: terminal as unknown as NodeJS.WriteStream, output, writes };
}

/** What a terminal shows after the writes: it moves the cursor up, clears the rest of a line, and all below. */
function screenOf(writes: readonly string[]): string[] {
  const screen: string[] = [];
  let row = 0;
  for (const write of writes) {
    for (const [token] of write.matchAll(/␛\[\d*[AKJ]|\n|[^␛\n]+/g)) {
      const up = /^␛\[(\d+)A$/.exec(token);
      if (up) row -= Number(up[1]);
      else if (token === '␛[J') screen.length = row;
      else if (token === '\n') row += 1;
      else if (token !== '␛[K') screen[row] = token;
    }
  }
  return screen;
}

test('a live terminal shows each frame in place of the one before, in one write, and notes above it', async () => {
  const { output, writes } = open();
  const long = 'word '.repeat(40);
  let end = (_last: string) => undefined as void;
  const shown = showProgress<string>(output, [
    row('p/one', (report) => {
      report({ headline: 'sent', timing: long });
      return new Promise((resolve) => (end = resolve));
    }),
    row('p/two', async () => Promise.reject(new Error('no worker'))),
  ]);
  await eventually('both are shown', () => screenOf(writes).some((line) => line.includes('no worker')));
  const frame = ['- p/one: sent', `${`    ${long}`.slice(0, 79)}…`, '✖ p/two: no worker'];
  expect(screenOf(writes)).toEqual(frame);
  // Nothing is cleared before it is written again.
  expect(writes.every((write) => /^(␛\[\d+A)?(?:[^␛]*␛\[K\n)+␛\[J$/.test(write))).toBe(true);
  output.note('a note');
  await eventually('the note is shown', () => screenOf(writes).length === 4);
  expect(screenOf(writes)).toEqual(['a note', ...frame]);
  end('job completed');
  await shown;
  output.note('after it');
  await eventually('it is written', () => writes.join('').includes('after it'));
  expect(screenOf(writes)).toEqual(['a note', '✔ p/one: job completed', '✖ p/two: no worker', 'after it']);
});

test('control characters in progress, results and errors never reach a live terminal', async () => {
  const { output, writes } = open({ columns: 120 });
  await showProgress(output, [
    row('one', async (report) => {
      report({ headline: HOSTILE, timing: HOSTILE });
      await eventually('it is shown', () => writes.join('').includes('    stopped by somebody'));
      return HOSTILE;
    }),
    row('two', () => Promise.reject(new Error(HOSTILE))),
  ]);
  expect(screenOf(writes)).toEqual(['✔ one: stopped by somebody', '✖ two: stopped by somebody']);
  for (const control of ['␛[2J', '␛]0', '\u0007', '\u009b', '\u202e']) expect(writes.join('')).not.toContain(control);
});

test('a live view shows commands as they were called, without secrets, and leaves no frame if it fails', async () => {
  keepSecret('sk-planted-0123456789');
  const { output, terminal, writes } = open({ columns: 40 });
  async function* updates() {
    yield 'first, key sk-planted-0123456789\u001b]0;owned\u0007';
    yield `second; run follow-up doctor ${'x'.repeat(40)}`;
    await Promise.reject(new Error('lost'));
  }
  await expect(showLive(output, terminal, updates(), String)).rejects.toThrow('lost');
  expect(output.frame).toBeUndefined();
  expect(screenOf(writes.slice(0, 1))).toEqual(['first, key [masked]']);
  expect(screenOf(writes)).toEqual(['second; run npx follow-up doctor xxxxxx…']);
});

test('a frame fits the width and the height of its terminal', () => {
  const lines = ['short', 'x'.repeat(30), 'three', 'four', 'five'];
  expect(fitFrame(lines, 20, 10)).toEqual(['short', `${'x'.repeat(19)}…`, 'three', 'four', 'five']);
  expect(fitFrame(lines, 80, 4)).toEqual(['short', 'x'.repeat(30), '… 3 more lines']);
});
