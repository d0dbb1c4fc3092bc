import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startStack, type Stack } from '../support/stack.js';
import { openCli, runCli, startCli } from './run-cli.js';

const project = `cli-${randomUUID().slice(0, 8)}`;
const FAST = ['--poll-initial-interval', '200ms', '--poll-max-interval', '500ms', '--settle-time', '5s'];
let stack: Stack;
let env: Record<string, string>;

beforeAll(async () => {
  const address = inject('temporalAddress');
  stack = await startStack({ address, simulator: { autoCreate: true } });
  env = { TEMPORAL_ADDRESS: address, FOLLOW_UP_TASK_QUEUE: stack.taskQueue };
});
afterAll(() => stack.stop());

const send = (job: string, ...options: string[]) =>
  runCli(['send', project, job, '--prompt', 'Add tests.', ...FAST, ...options], { env });
const delivered = (job: string) => stack.simulator.job(project, job)?.messages ?? 0;

describe('send', () => {
  test('waits for a completed job and prints its pull request, exit code 0', async () => {
    const { exitCode, stdout, stderr } = await send('job-1');
    expect(exitCode, stderr).toBe(0);
    expect(stdout).toContain(`https://git.example/${project}/job-1/pull/`);
    expect(stderr).toContain('started follow-up/');
    expect(delivered('job-1')).toBe(1);
  });

  test('prints one JSON document with --json and nothing else on stdout', async () => {
    const { exitCode, stdout } = await send('job-2', '--key', 'first', '--json');
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      workflowId: `follow-up/${project}/job-2/first`,
      alreadyStarted: false,
      status: 'completed',
      delivery: 'sent',
      job: { id: 'job-2' },
    });
  });

  test('ends with exit code 3 if the agent job failed', async () => {
    const { exitCode, stdout } = await send('fail-1', '--json');
    expect(exitCode).toBe(3);
    expect(JSON.parse(stdout)).toMatchObject({ status: 'failed' });
  });

  test('ends with exit code 0 if the job was archived after the send', async () => {
    const { exitCode, stdout } = await send('archive-1', '--json');
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ status: 'archived' });
  });

  test('ends with exit code 4 and sends nothing if the job was archived before', async () => {
    const { exitCode, stdout, stderr } = await send('archived-1', '--json');
    expect(exitCode).toBe(4);
    expect(JSON.parse(stdout)).toMatchObject({ error: { type: 'JobArchived', delivered: 'no' } });
    expect(stderr).toContain('JobArchived');
    expect(delivered('archived-1')).toBe(0);
  });

  test('ends with exit code 4 if there is no such job', async () => {
    const { exitCode, stdout } = await send('missing-1', '--json');
    expect(exitCode).toBe(4);
    expect(JSON.parse(stdout)).toMatchObject({ error: { type: 'JobNotFound', delivered: 'no' } });
  });

  test('reads the prompt from stdin, to the last byte', async () => {
    const { exitCode } = await runCli(['send', project, 'job-3', '-', '--no-wait', '-k', 'stdin'], {
      env,
      stdin: 'Zeile 1\nZeile 2 \u00fc\n',
    });
    expect(exitCode).toBe(0);
    const history = await stack.client.workflow.getHandle(`follow-up/${project}/job-3/stdin`).fetchHistory();
    const payload = history.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads?.[0];
    expect(JSON.parse(Buffer.from(payload?.data ?? []).toString())).toEqual({
      projectId: project,
      jobId: 'job-3',
      prompt: 'Zeile 1\nZeile 2 \u00fc\n',
    });
  });

  test('returns the first result for a key that was used before, and warns if the input differs', async () => {
    const first = await send('job-4', '--key', 'same', '--json');
    const again = await send('job-4', '--key', 'same', '--json');
    expect(again.exitCode).toBe(0);
    const [one, two] = [JSON.parse(first.stdout), JSON.parse(again.stdout)];
    expect(two).toEqual({ ...one, alreadyStarted: true });
    expect(again.stderr).not.toContain('warning');
    // The same durations, written differently, are the same input.
    const reworded = await send('job-4', '--key', 'same', '--settle-time', '5000', '--lane', 'interactive');
    expect(reworded.stderr).not.toContain('warning');
    const other = await runCli(['send', project, 'job-4', '-p', 'Something else.', ...FAST, '-k', 'same', '--json'], {
      env,
    });
    expect(other.exitCode).toBe(0);
    expect(other.stderr).toContain('warning: its input differs');
    expect(JSON.parse(other.stdout)).toEqual({ ...one, alreadyStarted: true, inputDiffers: true });
    expect(delivered('job-4')).toBe(1);
  });

  test(
    'ends with exit code 130 at Ctrl-C and says how to come back, and the follow-up continues',
    { tags: 'long' },
    async () => {
      const workflowId = `follow-up/${project}/slow-1/ctrl-c`;
      const run = startCli(['send', project, 'slow-1', '-p', 'x', ...FAST, '-k', 'ctrl-c', '--json'], { env });
      await eventually('the progress is shown', () => run.stderr().includes(': sent'));
      run.kill('SIGINT');
      const { exitCode, stdout, stderr } = await run.ended;
      expect(exitCode).toBe(130);
      expect(stderr).toContain(`follow-up status ${workflowId}`);
      expect(JSON.parse(stdout)).toMatchObject({ error: { type: 'Interrupted', workflowId } });
      expect(await stack.followUps.handle(workflowId).result()).toMatchObject({ status: 'completed' });
      const back = await send('slow-1', '--key', 'ctrl-c', '--json');
      expect(JSON.parse(back.stdout)).toMatchObject({ status: 'completed', alreadyStarted: true });
      expect(delivered('slow-1')).toBe(1);
    },
  );

  test('shows a hostile pull request link without its escape sequences', async () => {
    const url = 'https://git.example/\u001b]8;;https://evil.example\u0007x\u001b[31m\u009b2J';
    stack.simulator.addJob({ projectId: project, jobId: 'hostile', behaviour: { prLinkAfterTurn: { url } } });
    const { exitCode, stdout, stderr } = await send('hostile');
    expect(exitCode).toBe(0);
    // eslint-disable-next-line no-control-regex -- the text must not contain these
    expect(stdout + stderr).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
  });
});

test('send and status say at once that no worker polls the task queue', async () => {
  const alone = { ...env, FOLLOW_UP_TASK_QUEUE: `nobody-${randomUUID()}` };
  const id = `follow-up/${project}/job-7/alone`;
  const hint = `no worker polls task queue ${alone.FOLLOW_UP_TASK_QUEUE}; run follow-up doctor`;
  const args = ['send', project, 'job-7', '-p', 'x', '-k', 'alone'];
  const started = await runCli([...args, '--no-wait'], { env: alone });
  expect(started).toMatchObject({ exitCode: 0, stdout: `${id}\n` });
  expect(started.stderr).toContain(hint);
  const waiting = openCli(args, { env: alone });
  await eventually('send has said it', () => waiting.stderr().includes(hint));
  waiting.kill('SIGINT');
  await waiting.ended;
  const status = await runCli(['status', id, '--json'], { env: alone });
  expect(status.exitCode).toBe(1);
  expect(status.stderr).toContain('run follow-up doctor');
  expect(JSON.parse(status.stdout)).toMatchObject({ progressUnavailable: expect.stringContaining('has no worker') });
  const polled = await send('job-8', '--no-wait');
  expect(polled.stderr).not.toContain('no worker polls');
  await stack.client.workflow.getHandle(id).terminate();
});

describe('looking and acting', () => {
  test('status shows the progress of a running follow-up, and the result of an ended one', async () => {
    const id = `follow-up/${project}/stuck-1/look`;
    await send('stuck-1', '--key', 'look', '--no-wait');
    // What the job shows right after the send may belong to the turn before.
    await eventually('it is at work', async () => (await stack.followUps.handle(id).progress()).jobStatus === 'active');
    const running = await runCli(['status', id, '--json'], { env });
    expect(running.exitCode).toBe(0);
    expect(JSON.parse(running.stdout)).toMatchObject({
      status: 'running',
      progress: { state: 'polling', job: { status: 'active' } },
    });
    expect((await runCli(['status', id], { env })).stdout).toContain('job active');
    expect((await runCli(['poll-now', id], { env })).exitCode).toBe(0);
    expect((await runCli(['resolve', id, 'sent'], { env })).exitCode).toBe(2);

    expect((await runCli(['cancel', id, '--json'], { env })).exitCode).toBe(0);
    const waited = await send('stuck-1', '--key', 'look', '--json');
    expect(waited.exitCode).toBe(4);
    expect(JSON.parse(waited.stdout)).toMatchObject({ error: { type: 'Cancelled', delivered: 'yes' } });
    const ended = await runCli(['status', id, '--json'], { env });
    expect(JSON.parse(ended.stdout)).toMatchObject({
      status: 'failed',
      state: 'cancelled',
      error: { type: 'Cancelled', delivered: 'yes' },
    });
    expect((await runCli(['status', id], { env })).stdout).toMatch(
      /^cancelled \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d\nCancelled: Cancelled after the send \(delivered: yes\)\n$/,
    );
    for (const command of [
      ['cancel', id],
      ['poll-now', id],
    ]) {
      const { exitCode, stderr } = await runCli(command, { env });
      expect(exitCode).toBe(2);
      expect(stderr).toContain('has already ended');
    }
  });

  test('an unknown workflow id ends with exit code 2', async () => {
    for (const command of [['status'], ['cancel'], ['poll-now']]) {
      const { exitCode, stderr } = await runCli([...command, `follow-up/${project}/job-1/nobody`], { env });
      expect(exitCode).toBe(2);
      expect(stderr).toContain('no follow-up has the id');
    }
  });

  test('list prints one line for each follow-up, and filters by project and state', async () => {
    await send('job-5', '--key', 'listed');
    const items = await eventually('it is listed', async () => {
      const { stdout } = await runCli(['list', '--project', project, '--state', 'completed', '--json'], { env });
      const all = stdout
        .trim()
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line));
      return all.some((item) => item.key === 'listed') ? all : undefined;
    });
    expect(items.find((item: { key: string }) => item.key === 'listed')).toMatchObject({
      projectId: project,
      jobId: 'job-5',
      status: 'completed',
      state: 'completed',
      jobStatus: 'completed',
    });
    const none = await runCli(['list', '--project', `${project}-none`, '--json'], { env });
    expect(none).toMatchObject({ exitCode: 0, stdout: '' });
  });

  test('list shows the newest first, with a header, and filters by job, pull request and time', async () => {
    const before = new Date().toISOString();
    // The first that starts is the last that ends.
    await send('slow-2', '--key', 'list-1', '--no-wait');
    await send('job-list', '--key', 'list-2');
    const { exitCode } = await send('slow-2', '--key', 'list-1');
    expect(exitCode).toBe(0);
    const keysOf = (stdout: string) => stdout.match(/list-\d/g);
    await eventually('both are listed', async () => {
      const { stdout } = await runCli(['list', '--project', project, '--since', before, '--state', 'completed'], {
        env,
      });
      return keysOf(stdout)?.length === 2;
    });
    const listed = await runCli(['list', '--project', project, '--since', before], { env });
    expect(keysOf(listed.stdout)).toEqual(['list-2', 'list-1']);
    const [header = '', first = ''] = listed.stdout.split('\n');
    expect(header).toMatch(/^started +state +job +workflow +pull request$/);
    expect(first.indexOf('completed')).toBe(header.indexOf('state'));
    expect(first).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d /);

    const byJob = await runCli(['list', '--project', project, '--job', 'job-list', '--json'], { env });
    const [item] = byJob.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(item).toMatchObject({ jobId: 'job-list', startedAt: expect.stringMatching(/Z$/) as string });
    const byLink = await runCli(['list', '--pr', item.prLink, '--json'], { env });
    expect(byLink.stdout).toBe(byJob.stdout);
    const none = await runCli(['list', '--project', project, '--since', '0', '--json'], { env });
    expect(none).toMatchObject({ exitCode: 0, stdout: '' });
  });

  test('budget show counts the slots, or says that there is no budget yet', async () => {
    await send('job-6');
    const shown = await runCli(['budget', 'show', project, '--json'], { env });
    expect(shown.exitCode).toBe(0);
    const status = JSON.parse(shown.stdout);
    expect(status).toMatchObject({ projectId: project, limit: 100, state: 'running' });
    expect(status.used).toBe(stack.simulator.ledger.filter((entry) => entry.projectId === project).length);
    expect((await runCli(['budget', 'show', project], { env })).stdout).toMatch(/- slots: \d+ of 100 used in 1 h/);
    const none = await runCli(['budget', 'show', `${project}-none`, '--json'], { env });
    expect(none.exitCode).toBe(0);
    expect(JSON.parse(none.stdout)).toMatchObject({ used: 0, state: 'none' });
  });

  test('setup can run again', async () => {
    const { exitCode, stdout } = await runCli(['setup', '--json'], { env });
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ namespace: 'default', added: [] });
  });

  test('the simulator command runs until it gets a signal', async () => {
    const run = openCli(['simulator', '--port', '0', '--json']);
    const line = await eventually('it is up', () => (run.stdout().includes('\n') ? run.stdout() : undefined));
    const { baseUrl, apiKey } = JSON.parse(line);
    const answer = await fetch(`${baseUrl}/v2/agent/p/job/j`, { headers: { authorization: `Bearer ${apiKey}` } });
    expect(answer.status).toBe(200);
    run.kill('SIGTERM');
    expect((await run.ended).exitCode).toBe(0);
  });
});
