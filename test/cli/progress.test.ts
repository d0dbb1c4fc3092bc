import { PassThrough } from 'node:stream';
import type { WriteStream } from 'node:tty';
import { expect, test } from 'vitest';
import { keepSecret } from '../../src/secrets.js';
import { Output } from '../../src/cli/cli.js';
import { eventually } from '../support/eventually.js';
import { type ProgressRow, showLive, showProgress } from '../../src/cli/progress.js';

const HOSTILE = 'stopped\u001b[2J\u001b]0;owned\u0007\u009b31m by\r\nsomebody\u202e';

let shown = '';
type Work = ProgressRow<string>['work'];
const summarise = (last: string) => last;

/** What a live terminal shows for a row. */
async function shownLive(work: Work): Promise<string> {
  const terminal = Object.assign(new PassThrough(), { isTTY: true, rows: 24, columns: 120 });
  shown = '';
  terminal.on('data', (chunk: Buffer) => (shown += chunk.toString()));
  const stream = terminal as unknown as WriteStream;
  // stdout is a pipe, because progress goes to stderr.
  await showProgress(new Output({ stdout: new PassThrough(), stderr: stream }, false), [
    { label: 'p/j', work, summarise },
  ]);
  return shown;
}

test.each<[string, Work]>([
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

test('a live display whose updates fail leaves no frame behind', async () => {
  const terminal = Object.assign(new PassThrough(), { isTTY: true, rows: 24, columns: 80 });
  const stderr = terminal as unknown as WriteStream;
  const output = new Output({ stdout: new PassThrough(), stderr }, false);
  async function* updates() {
    yield 'shown';
    await Promise.reject(new Error('lost'));
  }
  await expect(showLive(output, stderr, updates(), String)).rejects.toThrow('lost');
  expect(output.frame).toBeUndefined();
});

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

test('a live terminal of 80 columns shows each frame in place of the one before, in one write', async () => {
  const writes: string[] = [];
  const terminal = Object.assign(new PassThrough(), { isTTY: true, rows: 24, columns: 80 });
  terminal.on('data', (chunk: Buffer) => writes.push(chunk.toString().replaceAll('\u001b', '␛')));
  const output = new Output({ stdout: new PassThrough(), stderr: terminal }, false);
  const long = 'word '.repeat(40);
  let end = (_last: string) => undefined as void;
  const shown = showProgress<string>(output, [
    {
      label: 'p/one',
      work: (report) => (report({ headline: 'sent', timing: long }), new Promise((resolve) => (end = resolve))),
      summarise,
    },
    { label: 'p/two', work: async () => Promise.reject(new Error('no worker')), summarise },
  ]);
  await eventually('both are shown', () => screenOf(writes).some((line) => line.includes('no worker')));
  expect(screenOf(writes)).toEqual(['- p/one: sent', `${`    ${long}`.slice(0, 79)}…`, '✖ p/two: no worker']);
  end('job completed');
  await shown;
  expect(screenOf(writes)).toEqual(['✔ p/one: job completed', '✖ p/two: no worker']);
  // Nothing is cleared before it is written again.
  expect(writes.every((write) => /^(␛\[\d+A)?(?:[^␛]*␛\[K\n)+␛\[J$/.test(write))).toBe(true);
});

test('a note goes above the frame of a live terminal, and below it once it has ended', async () => {
  const writes: string[] = [];
  const terminal = Object.assign(new PassThrough(), { isTTY: true, rows: 24, columns: 80 });
  terminal.on('data', (chunk: Buffer) => writes.push(chunk.toString().replaceAll('\u001b', '␛')));
  const output = new Output({ stdout: new PassThrough(), stderr: terminal }, false);
  const work: Work = async (report) => {
    report({ headline: 'sent', timing: 'now' });
    output.note('the worker is restarted');
    report({ headline: 'sent', timing: 'later' });
    return 'done';
  };
  await showProgress(output, [{ label: 'p/j', work, summarise }]);
  output.note('after it');
  await eventually('it is written', () => writes.join('').includes('after it'));
  expect(screenOf(writes)).toEqual(['the worker is restarted', '✔ p/j: done', 'after it']);
});

test('a live view is redrawn in place, with the command as it was called, without control characters and secrets', async () => {
  keepSecret('sk-planted-0123456789');
  const writes: string[] = [];
  const terminal = Object.assign(new PassThrough(), { isTTY: true, rows: 24, columns: 40 });
  terminal.on('data', (chunk: Buffer) => writes.push(chunk.toString().replaceAll('\u001b', '␛')));
  const stream = terminal as unknown as WriteStream;
  async function* updates() {
    yield 'first, key sk-planted-0123456789\u001b]0;owned\u0007';
    yield `second; run follow-up doctor ${'x'.repeat(40)}`;
  }
  const output = new Output({ stdout: stream, stderr: new PassThrough(), command: 'npx follow-up' }, false);
  output.commandNames = ['doctor'];
  await showLive(output, stream, updates(), (update) => update);
  expect(screenOf(writes.slice(0, 1))).toEqual(['first, key [masked]']);
  expect(screenOf(writes)).toEqual(['second; run npx follow-up doctor xxxxxx…']);
});
