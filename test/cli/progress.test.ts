import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { Output } from '../../src/cli/cli.js';
import { fitFrame, showLive, showProgress } from '../../src/cli/progress-rows.js';
import { keepSecret } from '../../src/secrets/secrets.js';

const HOSTILE = 'stopped\u001b[2J\u001b]0;owned\u0007\u009b31m by\r\nsomebody\u202e';

/** A live terminal, an output whose stderr it is, and what was written to it. */
function open(columns: number) {
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
  for (const [token] of writes.join('').matchAll(/␛\[\d*[AKJ]|\n|[^␛\n]+/g)) {
    const up = /^␛\[(\d+)A$/.exec(token);
    if (up) row -= Number(up[1]);
    else if (token === '␛[J') screen.length = row;
    else if (token === '\n') row += 1;
    else if (token !== '␛[K') screen[row] = token;
  }
  return screen;
}

test('a live terminal shows each frame in place of the one before, and notes above it, without control characters', async () => {
  const { output, writes } = open(80);
  const long = 'word '.repeat(40);
  let end = (_last: string) => undefined as void;
  const summarise = (last: string) => last;
  const shown = showProgress<string>(output, [
    {
      ...{ label: 'p/one', summarise },
      work: (report) => {
        report({ headline: HOSTILE, timing: long });
        return new Promise((resolve) => (end = resolve));
      },
    },
    { label: 'p/two', summarise, work: () => Promise.reject(new Error(HOSTILE)) },
  ]);
  const frame = ['- p/one: stopped by somebody', `${`    ${long}`.slice(0, 79)}…`, '✖ p/two: stopped by somebody'];
  await expect.poll(() => screenOf(writes)).toEqual(frame);
  // Nothing is cleared before it is written again.
  expect(writes.every((write) => /^(␛\[\d+A)?(?:[^␛]*␛\[K\n)+␛\[J$/.test(write))).toBe(true);
  output.note('a note');
  await expect.poll(() => screenOf(writes)).toEqual(['a note', ...frame]);
  end(HOSTILE);
  await shown;
  output.note('after it');
  const last = ['a note', '✔ p/one: stopped by somebody', '✖ p/two: stopped by somebody', 'after it'];
  await expect.poll(() => screenOf(writes)).toEqual(last);
  for (const control of ['␛[2J', '␛]0', '\u0007', '\u009b', '\u202e']) expect(writes.join('')).not.toContain(control);
});

test('a live view shows commands as they were called, without secrets, and leaves no frame if it fails', async () => {
  keepSecret('sk-planted-0123456789');
  const { output, terminal, writes } = open(40);
  async function* updates() {
    yield 'first, key sk-planted-0123456789\u001b]0;owned\u0007';
    yield `second; run follow-up doctor ${'x'.repeat(40)}`;
    await Promise.reject(new Error('lost'));
  }
  await expect(showLive(output, terminal, updates(), String)).rejects.toThrow('lost');
  expect(output.frame).toBeUndefined();
  expect(screenOf(writes.slice(0, 1))).toEqual(['first, key [masked]']);
  expect(screenOf(writes)).toEqual(['second; run npx follow-up doctor xxxxxx…']);
  output.note('key sk-planted-0123456789');
  await expect.poll(() => screenOf(writes).at(-1)).toBe('key [masked]');
});

test('a frame fits the width and the height of its terminal', () => {
  const lines = ['short', 'x'.repeat(30), 'three', 'four', 'five'];
  expect(fitFrame(lines, 20, 10)).toEqual(['short', `${'x'.repeat(19)}…`, 'three', 'four', 'five']);
  expect(fitFrame(lines, 80, 4)).toEqual(['short', 'x'.repeat(30), '… 3 more lines']);
});

test('the last line of a row marks a result that is a failure as one', async () => {
  const { output, writes } = open(80);
  const row = { work: async () => 'failed', summarise: (result: string) => `job ${result}` };
  const isFailure = (result: string) => result === 'failed';
  await showProgress<string>(output, [
    { label: 'p/one', ...row, isFailure },
    { label: 'p/two', ...row },
  ]);
  expect(screenOf(writes)).toEqual(['✖ p/one: job failed', '✔ p/two: job failed']);
});
