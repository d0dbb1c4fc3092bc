import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { Output } from '../../src/cli/cli.js';
import { fold, tableOf } from '../../src/cli/lines.js';

const ID = 'follow-up/my-project/add-docstrings/bd9b8893-fe83-4de6-9e0c-bb2c07cbfce6';

test('the columns of a table are as wide as their longest cell', () => {
  const rows = [
    ['state', 'workflow', 'pull request'],
    ['completed', ID, 'https://git.example/pull/2'],
    ['sending', 'follow-up/p/j/k', ''],
  ];
  expect(tableOf(rows)).toEqual([
    `state      ${'workflow'.padEnd(ID.length)}  pull request`,
    `completed  ${ID}  https://git.example/pull/2`,
    'sending    follow-up/p/j/k',
  ]);
});

test('in a narrow terminal, columns that do not fit stand whole on lines of their own, and empty cells take no line', () => {
  const rows = [
    ['state', 'job', 'workflow', 'pull request'],
    ['completed', '-', ID, 'https://git.example/pull/2'],
    ['sending', 'working', 'follow-up/p/j/k', ''],
  ];
  const lines = tableOf(rows, 80);
  expect(lines.join('\n')).toBe(
    [
      'state      job',
      '  workflow',
      '  pull request',
      'completed  -',
      `  ${ID}`,
      '  https://git.example/pull/2',
      'sending    working',
      '  follow-up/p/j/k',
    ].join('\n'),
  );
  expect(tableOf(rows, 20).join('\n')).toBe(lines.join('\n'));
});

test('a line that is too long continues below the text of its last column', () => {
  const line = 'error    workers  follow-ups wait until a worker polls, and nothing is sent until then';
  expect(fold(line, 50)).toBe(
    [
      'error    workers  follow-ups wait until a worker',
      '                  polls, and nothing is sent until',
      '                  then',
    ].join('\n'),
  );
  expect(fold(line)).toBe(line);
  expect(fold(line, 30)).toMatch(/^error {4}workers {2}follow-ups\n {2}wait until a worker polls,\n/);
});

test.each([
  ['error: it is stopped; run "npx follow-up budget restore my-project" to start it again', 50],
  ['to do    look at the jobs first, then: npx follow-up batch retry nightly --only unknown', 60],
  [`  -> temporal workflow unpause --workflow-id ${ID}, or wait`, 80],
  [`start a worker: FOLLOW_UP_TASK_QUEUE=another npx follow-up worker`, 40],
])('a line of %j is never broken within a command', (line, width) => {
  const [command = ''] = /(FOLLOW_UP_\S+ )?(npx follow-up|temporal) [^",]*/.exec(line) ?? [];
  const lines = fold(line, width).split('\n');
  expect(lines.length).toBeGreaterThan(1);
  expect(lines.some((each) => each.includes(command))).toBe(true);
  expect(lines.join(' ').replaceAll(/ +/g, ' ').trim()).toBe(line.replaceAll(/ +/g, ' ').trim());
});

test('only a terminal gets folded lines and tables', async () => {
  const long = Array.from({ length: 30 }, () => 'words').join(' ');
  const textOf = async (stream: PassThrough) => {
    const output = new Output({ stdout: stream, stderr: stream }, false);
    output.note(long);
    await output.list([ID], { columns: ['what', 'workflow'], row: (id) => ['a follow-up', id], none: 'none' });
    return String(stream.read());
  };
  expect(await textOf(new PassThrough())).toContain(`${long}\nwhat         workflow\na follow-up  ${ID}\n`);
  const narrow = await textOf(Object.assign(new PassThrough(), { columns: 80 }));
  expect(narrow).toContain(`\nwhat\n  workflow\na follow-up\n  ${ID}\n`);
  expect(Math.max(...narrow.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(80);
});
