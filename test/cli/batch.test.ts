import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startStack, type Stack } from '../support/stack.js';
import { openCli, runCli } from './run-cli.js';

const project = `batch-${randomUUID().slice(0, 8)}`;
const FAST = ['--poll-initial-interval', '200ms', '--poll-max-interval', '500ms', '--settle-time', '5s'];
let stack: Stack;
let env: Record<string, string>;
let directory: string;

beforeAll(async () => {
  const address = inject('temporalAddress');
  stack = await startStack({ address, simulator: { autoCreate: true } });
  env = { TEMPORAL_ADDRESS: address, FOLLOW_UP_TASK_QUEUE: stack.taskQueue };
  directory = await mkdtemp(join(tmpdir(), 'batch-'));
});
afterAll(async () => {
  await stack.stop();
  await rm(directory, { recursive: true });
});

const newId = () => `b-${randomUUID().slice(0, 8)}`;
const item = (jobId: string, prompt = 'Add tests.') => JSON.stringify({ projectId: project, jobId, prompt });
const lines = (...jobIds: string[]) => jobIds.map((jobId) => `${item(jobId)}\n`).join('');
const delivered = (jobId: string) => stack.simulator.job(project, jobId)?.messages ?? 0;
const run = (id: string, stdin: string, ...options: string[]) =>
  runCli(['batch', 'run', '-', '--id', id, ...FAST, ...options], { env, stdin });

describe('batch run', () => {
  test('sends each item once, waits for all, and ends with exit code 0 and their pull requests', async () => {
    const id = newId();
    const { exitCode, stdout, stderr } = await run(id, lines('one-1', 'one-2', 'archive-1'), '--json');
    expect(exitCode, stderr).toBe(0);
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({
      batchId: id,
      workflowId: `follow-up-batch/${id}`,
      alreadyStarted: false,
      ...{ total: 3, completed: 2, archived: 1, failed: 0, errors: 0 },
    });
    expect(report.items).toMatchObject([
      {
        ...{ index: 0, projectId: project, jobId: 'one-1', workflowId: `follow-up/${project}/one-1/${id}:0` },
        ...{ status: 'completed', prLink: expect.stringContaining('/one-1/pull/'), delivered: 'yes' },
      },
      { index: 1, jobId: 'one-2', status: 'completed' },
      { index: 2, jobId: 'archive-1', status: 'archived' },
    ]);
    expect(stderr).toContain(`started follow-up-batch/${id}\n`);
    for (const jobId of ['one-1', 'one-2', 'archive-1']) expect(delivered(jobId)).toBe(1);
  });

  test('takes ids that begin with - or _, as nanoid makes them', async () => {
    const projectId = `-nano-${randomUUID().slice(0, 8)}`;
    const batchId = `_${newId()}`;
    const words = ['batch', 'run', '--jobs', '-', `--project=${projectId}`, '--prompt', 'x', `--id=${batchId}`];
    const { exitCode, stderr } = await runCli([...words, ...FAST], { env, stdin: '-job\n_job\n' });
    expect(exitCode, stderr).toBe(0);
    for (const jobId of ['-job', '_job']) expect(stack.simulator.job(projectId, jobId)?.messages).toBe(1);
    const shown = await runCli(['budget', 'show', '--json', '--', projectId], { env });
    expect(JSON.parse(shown.stdout)).toMatchObject({ projectId, used: 2 });
    const refused = await runCli(['budget', 'show', projectId], { env });
    expect(refused.exitCode).toBe(2);
    expect(refused.stderr).toContain('put -- before an id that starts with -');
  });

  test('ends with exit code 3 if an agent job failed, and 4 if a follow-up had no result', async () => {
    const failed = await run(newId(), lines('fail-1', 'two-1'), '--json');
    expect(failed.exitCode).toBe(3);
    expect(JSON.parse(failed.stdout)).toMatchObject({ completed: 1, failed: 1, errors: 0 });
    const missing = await run(newId(), lines('missing-1', 'fail-2', 'two-2'));
    expect(missing.exitCode).toBe(4);
    expect(missing.stdout).toContain('3 of 3 done: 1 completed, 1 failed, 1 without a result (JobNotFound 1)');
    expect(missing.stdout).toMatch(/follow-up\/\S+\/missing-1\/\S+:0 +JobNotFound: .*\(delivered: no\)/);
    // stderr says only that it has ended.
    expect(missing.stderr).not.toContain('3 of 3 done');
    expect(missing.stdout).toMatch(/\/fail-2\/\S+:1 +the agent job failed/);
  });

  test('takes a list of jobs with one prompt', async () => {
    const file = join(directory, 'jobs.txt');
    await writeFile(file, 'list-1\r\n\r\nlist-2\r\n');
    const id = newId();
    const { exitCode, stdout, stderr } = await runCli(
      ['batch', 'run', '--jobs', file, '--project', project, '--prompt', 'Add tests.', '--id', id, ...FAST],
      { env },
    );
    expect(exitCode, stderr).toBe(0);
    for (const jobId of ['list-1', 'list-2']) expect(delivered(jobId)).toBe(1);
    // The counts appear once, with the pull requests.
    expect(stderr).not.toContain('2 completed');
    expect(stdout).toMatch(new RegExp(`^${id}: 2 of 2 done: 2 completed$`, 'm'));
    expect(stdout).toMatch(/^ {2}follow-up\/\S+\/list-1\/\S+ {2}https:.*\/list-1\/pull\//m);
  });

  test('with --no-wait prints the ids at once; the same id finds the same batch again', async () => {
    const id = newId();
    const stdin = lines('three-1', 'three-2');
    const started = await run(id, stdin, '--no-wait', '--json');
    expect(started.exitCode, started.stderr).toBe(0);
    expect(JSON.parse(started.stdout)).toMatchObject({
      ...{ batchId: id, workflowId: `follow-up-batch/${id}`, total: 2, alreadyStarted: false },
      items: [
        { index: 0, line: 1, jobId: 'three-1', workflowId: `follow-up/${project}/three-1/${id}:0` },
        { index: 1, line: 2, jobId: 'three-2', workflowId: `follow-up/${project}/three-2/${id}:1` },
      ],
    });
    expect((await run(id, stdin, '--no-wait')).stdout).toBe(`${id}\n`);
    const again = await run(id, stdin, '--json');
    expect(again.exitCode, again.stderr).toBe(0);
    expect(JSON.parse(again.stdout)).toMatchObject({ alreadyStarted: true, total: 2, completed: 2 });
    for (const jobId of ['three-1', 'three-2']) expect(delivered(jobId)).toBe(1);
    expect((await run(id, stdin, '--no-wait')).stdout).toBe(`${id}\n`);
  });

  test('refuses an id that was used with other items, prompts or settings, and sends nothing', async () => {
    const id = newId();
    await run(id, lines('four-1'), '--no-wait');
    const others: [stdin: string, ...options: string[]][] = [
      [`${item('four-1', 'Something else.')}\n${item('four-2')}\n`],
      [lines('four-1'), '--max-open', '7'],
      [lines('four-1'), '--canary', '1'],
    ];
    for (const [stdin, ...options] of others) {
      const { exitCode, stderr } = await run(id, stdin, '--no-wait', ...options);
      expect(exitCode).toBe(2);
      expect(stderr).toContain(`batch ${id}`);
      expect(stderr).toContain('different input');
    }
    expect(delivered('four-2')).toBe(0);
  });

  test(
    'ends with exit code 130 at Ctrl-C and says how to come back, and the batch continues',
    { tags: 'long' },
    async () => {
      const id = newId();
      const started = openCli(['batch', 'run', '-', '--id', id, ...FAST, '--json'], { env, stdin: lines('slow-1') });
      await eventually('the progress is shown', () => started.stderr().includes('0 of 1 done'));
      started.kill('SIGINT');
      const { exitCode, stdout, stderr } = await started.ended;
      expect(exitCode).toBe(130);
      expect(stderr).toContain(`follow-up batch status ${id}`);
      expect(JSON.parse(stdout)).toMatchObject({ error: { type: 'Interrupted', workflowId: `follow-up-batch/${id}` } });
      const back = await runCli(['batch', 'status', id, '--watch', '--json'], { env });
      expect(back.exitCode, back.stderr).toBe(0);
      expect(JSON.parse(back.stdout)).toMatchObject({ total: 1, completed: 1 });
      expect(delivered('slow-1')).toBe(1);
    },
  );
});

describe('a list that does not fit into one payload', () => {
  const long = Array.from({ length: 300 }, (_, index) => ({
    ...{ projectId: `${project}-long`, jobId: `job-${index}`, prompt: `${index} `.repeat(500) },
  }));

  test('is handed over in pieces, and the same command continues where an earlier one broke off', async () => {
    const id = newId();
    const interruption = new AbortController();
    const brokenOff = stack.followUps.startBatch(
      { id, items: long, maxOpen: 1 },
      {
        signal: interruption.signal,
        onHandedOver: (count) => {
          if (count > 0) interruption.abort(new Error('broken off'));
        },
      },
    );
    await expect(brokenOff).rejects.toThrow('broken off');
    const before = await stack.followUps.batch(id).status();
    expect(before.total).toBeGreaterThan(0);
    expect(before.total).toBeLessThan(300);
    expect(before.sealed).toBe(false);

    const file = join(directory, 'long.jsonl');
    await writeFile(file, long.map((each) => `${JSON.stringify(each)}\n`).join(''));
    const args = ['batch', 'run', file, '--id', id, '--max-open', '1', '--no-wait', '--json'];
    for (const _attempt of ['continues', 'finds it complete']) {
      const { exitCode, stdout, stderr } = await runCli(args, { env });
      expect(exitCode, stderr).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({ alreadyStarted: true, total: 300 });
    }
    const batch = stack.followUps.batch(id);
    expect(await batch.status()).toMatchObject({ total: 300, sealed: true });
    const jobIds: string[] = [];
    for await (const { jobId } of batch.list()) jobIds.push(jobId);
    expect(jobIds).toEqual(long.map(({ jobId }) => jobId));
    await batch.cancel();
    expect(await batch.result()).toMatchObject({ total: 300, cancelled: true });
  });
});

describe('a batch with a brake', () => {
  test('is held after its canary, says so while it is waited for, and goes on when it is told to', async () => {
    const id = newId();
    const args = ['batch', 'run', '-', '--id', id, '--canary', '1', ...FAST, '--json'];
    const running = openCli(args, { env, stdin: lines('bird-1', 'bird-2', 'bird-3') });
    const hint = `: the canary has ended: 1 of 3 items; follow-up batch continue ${id}, or follow-up batch cancel ${id}`;
    await eventually('it is held', () => running.stderr().includes(hint));
    const shown = await runCli(['batch', 'status', id], { env });
    expect(shown.stdout).toContain(`${id}, held`);
    expect(shown.stdout).toContain(hint);
    expect(JSON.parse((await runCli(['batch', 'status', id, '--json'], { env })).stdout)).toMatchObject({
      ...{ canary: 1, waitingToStart: 2, hold: { name: 'canary', reason: expect.any(String), at: expect.any(String) } },
    });
    expect(delivered('bird-2')).toBe(0);

    const proceeded = await runCli(['batch', 'continue', id, '--json'], { env });
    expect(proceeded.exitCode, proceeded.stderr).toBe(0);
    expect(JSON.parse(proceeded.stdout)).toMatchObject({ batchId: id, hold: { name: 'canary' } });
    const { exitCode, stdout } = await running.ended;
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ total: 3, completed: 3 });
    const ended = await runCli(['batch', 'continue', id], { env });
    expect(ended.exitCode).toBe(2);
    expect(ended.stderr).toContain('has already ended');
  });

  test('is held once more items have failed than may, and a batch that is not held cannot continue', async () => {
    const id = newId();
    await run(id, lines('missing-a', 'stuck-b'), '--max-failures', '40%', '--no-wait');
    await eventually('it is held', async () => (await stack.followUps.batch(id).status()).hold !== undefined);
    const shown = await runCli(['batch', 'status', id], { env });
    expect(shown.stdout).toMatch(/^held +since .*: 1 of 2 items failed \(40% may\)/m);
    expect((await runCli(['batch', 'continue', id], { env })).stdout).toContain('1 of 2 items failed');
    const again = await runCli(['batch', 'continue', id, '--json'], { env });
    expect(again.exitCode).toBe(1);
    expect(JSON.parse(again.stdout)).toMatchObject({ error: { type: 'BatchNotHeld' } });
    await stack.followUps.batch(id).cancel();
  });
});

describe('batch run --dry-run', () => {
  test('shows what would be sent, as text or JSON, and sends nothing', async () => {
    const id = newId();
    const projectId = `dry-${randomUUID().slice(0, 8)}`;
    const stdin = ['a', 'b', 'c'].map((jobId) => `${JSON.stringify({ projectId, jobId, prompt: 'x' })}\n`).join('');
    const text = await run(id, stdin, '--dry-run');
    expect(text.exitCode, text.stderr).toBe(0);
    expect(text.stdout).toContain(`${id}, 3 items; nothing is sent (--dry-run)`);
    expect(text.stdout).toMatch(
      new RegExp(`^project +${projectId}: 3 to send, 100 of 100 slots in 1 h free, the last not before `, 'm'),
    );
    const json = await run(id, stdin, '--dry-run', '--json');
    expect(JSON.parse(json.stdout)).toMatchObject({
      ...{ batchId: id, total: 3, alreadyStarted: false, inputDiffers: false },
      projects: [{ projectId, toSend: 3, limit: 100, windowMs: 3_600_000, freeSlots: 100, waiting: 0 }],
      items: [{ index: 0, line: 1, projectId, jobId: 'a', workflowId: `follow-up/${projectId}/a/${id}:0` }, {}, {}],
    });
    await expect(stack.followUps.batch(id).describe()).rejects.toThrow('no batch has the id');
    expect(stack.simulator.ledger.filter((entry) => entry.projectId === projectId)).toEqual([]);
  });

  test('names bad lines, too', async () => {
    const { exitCode, stderr } = await run(newId(), `${item('a')}\n{}\n`, '--dry-run');
    expect(exitCode).toBe(2);
    expect(stderr).toContain('line 2: projectId:');
  });
});

describe('batch retry', () => {
  test('sends only the items it is asked for, as the next of its batches, and none that is still open', async () => {
    const id = newId();
    const held = newId();
    await stack.followUps.budget(held).pause();
    const heldItem = JSON.stringify({ projectId: held, jobId: 'held-2', prompt: 'Add tests.' });
    const [first = '', ...others] = lines('good-1', 'missing-3', 'fail-4', 'good-5').trim().split('\n');
    await run(id, `${[first, heldItem, ...others].join('\n')}\n`, '--no-wait');
    const running = await runCli(['batch', 'retry', id], { env });
    expect(running.exitCode).toBe(2);
    expect(running.stderr).toContain('is still running');
    await eventually('it waits', async () => (await stack.followUps.budget(held).status())?.waitingTotal === 1);
    // Nobody knows whether a follow-up delivered its message if it was terminated before it settled.
    await stack.client.workflow.getHandle(`follow-up/${held}/held-2/${id}:1`).terminate('for the test');
    const { exitCode } = await runCli(['batch', 'status', id, '--watch'], { env });
    expect(exitCode).toBe(4);

    const refused = await runCli(['batch', 'retry', id, '--only', 'unknown', '--no-wait', '--json'], { env });
    expect(refused.exitCode).toBe(2);
    expect(refused.stderr).toContain('--yes');
    const unknown = await runCli(['batch', 'retry', id, '--only', 'unknown', '--yes', '--no-wait', '--json'], { env });
    expect(unknown.exitCode, unknown.stderr).toBe(0);
    expect(JSON.parse(unknown.stdout)).toMatchObject({ batchId: `${id}-retry-1`, retryOf: id, alreadyStarted: false });
    const retried: string[] = [];
    for await (const { jobId } of stack.followUps.batch(`${id}-retry-1`).list()) retried.push(jobId);
    expect(retried).toEqual(['held-2']);

    const failed = await runCli(['batch', 'retry', `${id}-retry-1`, '--json'], { env });
    expect(failed.exitCode, failed.stderr).toBe(4);
    expect(failed.stderr).toContain('1 skipped: still under way');
    const report = JSON.parse(failed.stdout);
    expect(report).toMatchObject({ batchId: `${id}-retry-2`, retryOf: id, total: 2, failed: 1, errors: 1 });
    expect(report.items).toMatchObject([
      {
        jobId: 'missing-3',
        errorType: 'JobNotFound',
        workflowId: `follow-up/${project}/missing-3/${report.batchId}:0`,
      },
      { jobId: 'fail-4', status: 'failed' },
    ]);
    expect(delivered('fail-4')).toBe(2);
    expect(delivered('good-1')).toBe(1);
    expect(delivered('good-5')).toBe(1);
    await stack.followUps.batch(`${id}-retry-1`).cancel();
  });

  test('of a batch without failures says so and sends nothing', async () => {
    const id = newId();
    await run(id, lines('six-1'));
    const { exitCode, stderr } = await runCli(['batch', 'retry', id], { env });
    expect(exitCode).toBe(2);
    expect(stderr).toContain('has no item to retry');
  });
});

describe('batch status', () => {
  test('shows counts, failures and items of a running batch and of an ended one', async () => {
    const id = newId();
    await run(id, lines('stuck-1', 'fail-3', 'missing-2'), '--no-wait');
    const status = () => runCli(['batch', 'status', id, '--json'], { env });
    const running = await eventually('two have ended', async () => {
      const report = JSON.parse((await status()).stdout);
      return report.failed === 1 && report.errors === 1 ? report : undefined;
    });
    expect(running).toMatchObject({ batchId: id, total: 3, open: 1, ended: false });
    expect(running.items.map((row: { status: string }) => row.status)).toEqual(['pending', 'failed', 'error']);
    const shown = await runCli(['batch', 'status', id], { env });
    expect(shown.exitCode).toBe(0);
    expect(shown.stdout).toMatch(/items +2 of 3 done: 1 failed, 1 without a result \(JobNotFound 1\)/);
    expect(shown.stdout).toMatch(/\/missing-2\/\S+:2 +JobNotFound/);

    const cancelled = await runCli(['batch', 'cancel', id], { env });
    expect(cancelled.exitCode, cancelled.stderr).toBe(0);
    const ended = await runCli(['batch', 'status', id, '--watch', '--json'], { env });
    expect(ended.exitCode).toBe(4);
    const { items } = JSON.parse(ended.stdout);
    expect(items).toEqual([
      {
        ...{ index: 0, projectId: project, jobId: 'stuck-1', workflowId: `follow-up/${project}/stuck-1/${id}:0` },
        ...{ status: 'error', prLink: null, errorType: 'Cancelled', message: expect.any(String), delivered: 'yes' },
      },
      expect.objectContaining({ status: 'failed', errorType: null, message: null, delivered: 'yes' }),
      expect.objectContaining({ status: 'error', errorType: 'JobNotFound', delivered: 'no' }),
    ]);
    expect(JSON.parse((await status()).stdout).items).toEqual(items);
  });

  test('ends with exit code 2 for an unknown batch, as do continue, retry and cancel', async () => {
    for (const command of ['status', 'continue', 'retry', 'cancel']) {
      const { exitCode, stderr } = await runCli(['batch', command, 'nobody'], { env });
      expect(exitCode, stderr).toBe(2);
      expect(stderr).toContain('no batch has the id nobody');
    }
  });
});
