import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import type { Board, BoardProject } from '../../src/cli/board.js';
import { describeBoard } from '../../src/cli/top.js';
import { Output } from '../../src/cli/cli.js';
import { showLive } from '../../src/cli/progress-view.js';
import type { WriteStream } from 'node:tty';

const now = new Date('2026-01-02T03:04:05Z');
const at = (ms: number) => new Date(now.getTime() + ms).toISOString();

const sending: NonNullable<BoardProject['status']> = {
  projectId: 'shop',
  limit: 5,
  windowMs: 3_600_000,
  reserve: 0,
  used: 5,
  unsettled: 1,
  remembersSince: now.toISOString(),
  nextFreeSlotAt: at(90_000),
  waitingTotal: 12,
  waitingInBatchLane: 8,
  waitingForJob: 1,
};

const board: Board = {
  address: 'localhost:7233',
  namespace: 'default',
  asOf: now.toISOString(),
  projects: [
    { projectId: 'shop', unknown: 2, status: sending },
    { projectId: 'idle', unknown: 0, status: { ...sending, used: 0, waitingTotal: 0, waitingInBatchLane: 0 } },
    {
      projectId: 'frozen',
      unknown: 0,
      status: { ...sending, paused: { reasons: ['operator'], since: now.toISOString(), note: 'freeze\u001b[2J' } },
    },
    { projectId: 'silent', unknown: 0, statusUnavailable: 'no worker runs' },
  ],
  needs: [
    {
      name: 'follow-up',
      subject: 'follow-up/shop/job/k',
      status: 'error',
      message: 'follow-up/shop/job/k has ended, and whether its message was delivered is not known',
      since: at(-60_000),
      fix: 'look at the job',
    },
  ],
  isPartial: false,
};

test('a board has one line for each project, with both lanes, the next slot, unknown deliveries and pauses', () => {
  const lines = describeBoard(board, now).split('\n');
  expect(lines[0]).toMatch(/^Temporal localhost:7233, namespace default: as of \d\d:\d\d:05 /);
  const [, , header, shop, idle, frozen, silent] = lines;
  expect(header).toMatch(/^project +used +waiting +batch +for job +unknown +next slot +state$/);
  expect(shop).toMatch(/^shop +5 of 5 in 1 h +4 +8 +1 +2 +\d\d:\d\d:35 \S+ +sends$/);
  expect(idle).toMatch(/^idle +0 of 5 in 1 h +0 +0 +1 +0 +now +sends$/);
  expect(frozen).toMatch(/^frozen +5 of 5 in 1 h +4 +8 +1 +0 +- +paused: operator \(freeze\)$/);
  expect(silent).toMatch(/^silent +\? +\? +\? +\? +0 +\? +does not answer: no worker runs$/);
  // Counts are aligned to the right.
  expect(shop?.indexOf('2  ')).toBe((header?.indexOf('unknown') ?? 0) + 'unknown'.length - 1);
});

test('below the projects, the board lists what needs attention, with what to do', () => {
  const text = describeBoard(board, now);
  expect(text).toContain('\n\n1 needs attention:\n  follow-up/shop/job/k has ended, and whether');
  expect(text).toMatch(/is not known \(since \d\d:\d\d:05 \S+\)\n {4}-> look at the job$/);
  expect(describeBoard({ ...board, needs: [] }, now)).toContain('\n\nnothing needs attention');
});

test('an outdated board says so, and from when it is', () => {
  const trouble = 'no worker polls task queue follow-ups; run follow-up doctor';
  const first: Board = { ...board, trouble, projects: [], needs: [] };
  expect(describeBoard(first, now)).toContain(`\n${trouble}\n\nprojects: not known`);
  const later = describeBoard({ ...board, trouble, projectsAsOf: at(-60_000) }, now);
  expect(later).toMatch(/run follow-up doctor\nprojects as of \d\d:\d\d:05 \S+:\n\nproject /);
  const { asOf: _asOf, ...unknown } = first;
  expect(describeBoard(unknown, now)).toMatch(/^Temporal localhost:7233, namespace default: nothing is known yet\n/);
});

test('a long board keeps half of a small terminal for what needs attention', () => {
  const many = (count: number) => Array.from({ length: count }, (_, index) => index);
  const [project] = board.projects;
  const [need] = board.needs;
  const long: Board = {
    ...board,
    projects: many(100).flatMap((index) => (project ? [{ ...project, projectId: `p${index}` }] : [])),
    needs: many(100).flatMap(() => need ?? []),
  };
  const lines = describeBoard(long, now, 24).split('\n');
  expect(lines.length).toBeLessThanOrEqual(24);
  expect(lines.filter((line) => line.startsWith('p')).length).toBeGreaterThan(5);
  expect(lines.filter((line) => line.includes('->')).length).toBeGreaterThan(3);
  expect(lines).toContainEqual(expect.stringMatching(/^… \d+ more lines$/));
});

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
