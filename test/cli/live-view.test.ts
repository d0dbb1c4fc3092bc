import { PassThrough } from 'node:stream';
import type { WriteStream } from 'node:tty';
import { expect, test } from 'vitest';
import { Output } from '../../src/cli/cli.js';
import { showLive } from '../../src/cli/progress-view.js';

test('a live view is redrawn in place, without control characters from the text', async () => {
  const terminal = Object.assign(new PassThrough(), { isTTY: true, rows: 24, columns: 40 });
  let written = '';
  terminal.on('data', (chunk: Buffer) => (written += chunk.toString()));
  const stream = terminal as unknown as WriteStream;
  async function* updates() {
    yield 'first\u001b]0;owned\u0007';
    yield `second; run follow-up doctor ${'x'.repeat(40)}`;
  }
  const output = new Output({ stdout: stream, stderr: new PassThrough(), command: 'npx follow-up' }, false);
  output.commandNames = ['doctor'];
  await showLive(output, stream, updates(), (update) => update);
  const [first, ...second] = written.split('\u001b[2K');
  expect(first).toBe('first\n');
  expect(second.at(-1)).toBe('\u001b[Gsecond; run npx follow-up doctor xxxxxx…\n');
});
