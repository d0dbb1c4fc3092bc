import { randomUUID } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { askCli, FAST, openCli, runCli, useStack } from './run-cli.js';

const project = `batch-${randomUUID().slice(0, 8)}`;
const rig = useStack();
const newId = () => `b-${randomUUID().slice(0, 8)}`;
const line = (jobId: string, prompt = 'Add tests.', projectId = project) =>
  `${JSON.stringify({ projectId, jobId, prompt })}\n`;
const delivered = (jobId: string) => rig.stack.simulator.job(project, jobId)?.messages ?? 0;
const batch = (...args: string[]) => runCli(['batch', ...args], { env: rig.env });
const ask = (...args: string[]) => askCli(['batch', ...args], { env: rig.env });
const runArgs = (id: string, ...options: string[]) => ['batch', 'run', '-', '--id', id, ...FAST, ...options];
const run = (id: string, stdin: string, ...options: string[]) =>
  runCli(runArgs(id, ...options), { env: rig.env, stdin });

const refused = (said: string | RegExp) => ({ exitCode: 2, stderr: expect.stringMatching(said) });

/** A project whose budget is paused, so that nothing is sent. */
async function pausedProject(): Promise<string> {
  const projectId = newId();
  await rig.stack.followUps.budget(projectId).pause();
  return projectId;
}

test('each job of a list gets one message, even if ids begin with - or _, and the pull requests are printed', async () => {
  const projectId = `-nano-${randomUUID().slice(0, 8)}`;
  const id = `_${newId()}`;
  const args = ['batch', 'run', '--jobs', '-', `--project=${projectId}`, '--prompt', 'x', `--id=${id}`, ...FAST];
  const { exitCode, stdout, stderr } = await runCli(args, { env: rig.env, stdin: '-job\r\n\r\n_job\n' });
  expect(exitCode, stderr).toBe(0);
  const link = (job: string, index: number) =>
    `  follow-up/${projectId}/${job}/${id}:${index} https://\\S+/${job}/pull/\\d+\n`;
  const links = `Pull requests\n${link('-job', 0)}${link('_job', 1)}`;
  expect(stdout).toMatch(new RegExp(`^2 of 2 ended\nbatch +${id}\ncompleted +2\n\n${links}$`));
  expect(stderr).toContain(`started follow-up-batch/${id}\n`);
  // The end says no counts: the result has them. The view may show them shortly before.
  expect(stderr.endsWith(`\nbatch ${id}: ended\n`), stderr).toBe(true);
  for (const jobId of ['-job', '_job']) expect(rig.stack.simulator.job(projectId, jobId)?.messages).toBe(1);
  const none = await batch('retry', `--json`, '--', id);
  expect(none).toMatchObject(refused('has no item to retry'));
  const show = await runCli(['budget', 'show', projectId], { env: rig.env });
  expect(show).toMatchObject(refused('put -- before an id that starts with -'));
});

test('--no-wait prints the ids; the same id finds its batch again, and is refused for another list; cancel ends it', async () => {
  const [id, projectId] = [newId(), await pausedProject()];
  const stdin = line('a', 'x', projectId) + line('b', 'x', projectId);
  const workflowId = `follow-up-batch/${id}`;
  const preview = await askCli(runArgs(id, '--dry-run'), { env: rig.env, stdin });
  const items = ['a', 'b'].map((jobId, index) => ({
    ...{ index, line: index + 1, projectId, jobId, workflowId: `follow-up/${projectId}/${jobId}/${id}:${index}` },
  }));
  expect(preview.document).toMatchObject({ batchId: id, total: 2, projects: [{ projectId, toSend: 2 }], items });
  expect(await batch('status', id)).toMatchObject({ exitCode: 2 });
  const started = await askCli(runArgs(id, '--no-wait'), { env: rig.env, stdin });
  expect(started).toMatchObject({ exitCode: 0, stderr: `started ${workflowId}\n` });
  expect(started.document).toEqual({ batchId: id, workflowId, total: 2, items, alreadyStarted: false });
  const again = await run(id, stdin, '--no-wait');
  expect(again).toMatchObject({
    exitCode: 0,
    stdout: `${id}\n`,
    stderr: expect.stringContaining('was started before'),
  });
  for (const [other, ...options] of [[line('c')], [stdin, '--max-open', '7'], [stdin, '--canary', '1']] as const) {
    expect(await run(id, other, '--no-wait', ...options)).toMatchObject(refused(/batch \S+ .*different input/));
  }
  expect((await run(id, stdin, '--dry-run')).stdout).toContain('started  the id was used before, with this input');
  expect(await ask('continue', id)).toMatchObject({ exitCode: 2, document: { error: { type: 'BatchNotHeld' } } });
  expect(await batch('retry', id)).toMatchObject(refused('is still running'));

  const interrupted = openCli(runArgs(id, '--json'), { env: rig.env, stdin });
  await eventually('the progress is shown', () => interrupted.stderr().includes('0 of 2 ended'));
  interrupted.kill('SIGINT');
  const end = await interrupted.ended;
  expect(end).toMatchObject({ exitCode: 130, stderr: expect.stringContaining(`follow-up batch status ${id}`) });
  expect(JSON.parse(end.stdout)).toMatchObject({ error: { type: 'Interrupted', workflowId } });
  expect(await batch('cancel', id)).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining(`asked batch ${id}`),
  });
  const ended = await batch('status', id, '--watch');
  expect(ended.exitCode).toBe(4);
  expect(ended.stdout).toMatch(
    /^2 of 2 ended, cancelled\nbatch .*\nno result +2 \(Cancelled 2\)\n[^]*\n {2}\S+: not delivered, Cancelled: .*$/m,
  );
});

test('a list that does not fit into one payload is handed over in pieces, and continues where it broke off', async () => {
  const [id, projectId] = [newId(), await pausedProject()];
  const jobIds = ['a', 'b', 'c'];
  const items = jobIds.map((jobId) => ({ projectId, jobId, prompt: 'x'.repeat(200_000) }));
  const stop = new AbortController();
  const onHandedOver = (count: number) => {
    if (count > 1) stop.abort(new Error('broken off'));
  };
  const brokenOff = rig.stack.followUps.startBatch({ id, items }, { signal: stop.signal, onHandedOver });
  await expect(brokenOff).rejects.toThrow('broken off');
  const handle = rig.stack.followUps.batch(id);
  expect(await handle.status()).toMatchObject({ sealed: false });
  const stdin = items.map((item) => `${JSON.stringify(item)}\n`).join('');
  const args = ['batch', 'run', '-', '--id', id, '--no-wait'];
  for (const _attempt of ['continues', 'finds it complete']) {
    const { exitCode, document, stderr } = await askCli(args, { env: rig.env, stdin });
    expect({ exitCode, document }, stderr).toMatchObject({ exitCode: 0, document: { alreadyStarted: true, total: 3 } });
    expect(await handle.status()).toMatchObject({ total: 3, sealed: true });
  }
  const found = [];
  for await (const { jobId } of handle.list()) found.push(jobId);
  expect(found).toEqual(jobIds);
  await handle.cancel();
  expect(await handle.result()).toMatchObject({ total: 3, cancelled: true });
});

test('a batch is held after its canary, shows that in run and status, and continues on command', async () => {
  const id = newId();
  const running = openCli(runArgs(id, '--canary', '1', '--json'), { env: rig.env, stdin: line('one') + line('two') });
  const ways = [`to go on: follow-up batch continue ${id}`, `or, to end it: follow-up batch cancel ${id}`];
  await eventually('it is held', () => running.stderr().includes(`; ${ways.join('; ')}`));
  const { stdout: shown } = await batch('status', id);
  expect(shown).toMatch(/^1 of 2 ended, held since .*: the canary has ended: 1 of 2 items\n/);
  expect(shown).toMatch(new RegExp(`^to do +${ways.join('\n +')}$`, 'm'));
  expect(delivered('two')).toBe(0);
  const hold = { name: 'canary', reason: expect.any(String) };
  expect((await ask('status', id)).document).toMatchObject({ canary: 1, waitingToStart: 1, hold });
  expect(await ask('continue', id)).toMatchObject({ exitCode: 0, document: { batchId: id, hold } });
  const { exitCode, stdout } = await running.ended;
  expect({ exitCode, ...JSON.parse(stdout) }).toMatchObject({ exitCode: 0, total: 2, completed: 2 });
  expect(await batch('continue', id)).toMatchObject(refused('already ended'));
});

test('status shows counts, failures and items; retry sends what is asked for, and nothing that is still open', async () => {
  const [id, held] = [newId(), await pausedProject()];
  const stdin = line('good') + line('unknown', 'x', held) + line('missing-1') + line('fail-1');
  await run(id, stdin, '--no-wait');
  const running = await eventually('three have ended', async () => {
    const { document } = await ask('status', id);
    const { open, completed, errors, failed } = document;
    return [open, completed, errors, failed].every((count) => count === 1) && document;
  });
  expect(running).toMatchObject({ batchId: id, total: 4, ended: false });
  const states = running.items.map((row: { status: string }) => row.status);
  expect(states).toEqual(['completed', 'pending', 'error', 'failed']);
  const { stdout } = await batch('status', id);
  expect(stdout).toMatch(/^completed +1\nagent job failed +1\nno result +1 \(JobNotFound 1\)\nopen +1\b/m);
  expect(stdout).toMatch(
    /^ {2}\S+\/missing-1\/\S+:2: not delivered, JobNotFound: .*\n {2}\S+:3: the agent job failed$/m,
  );

  // Nobody knows whether a follow-up delivered its message if it was terminated before it settled.
  await rig.stack.client.workflow.getHandle(`follow-up/${held}/unknown/${id}:1`).terminate('for the test');
  const ended = await ask('status', id, '--watch');
  expect(ended).toMatchObject({ exitCode: 4, document: { completed: 1, failed: 1, errors: 2 } });
  const none = { prLink: null, errorType: null, message: null };
  const message = expect.any(String);
  expect(ended.document.items).toMatchObject([
    {
      ...{ ...none, index: 0, projectId: project, jobId: 'good', workflowId: `follow-up/${project}/good/${id}:0` },
      ...{ status: 'completed', prLink: expect.stringContaining('/good/pull/'), delivered: 'yes' },
    },
    { status: 'error', errorType: 'Terminated', message, delivered: 'unknown', prLink: null },
    { status: 'error', errorType: 'JobNotFound', message, delivered: 'no' },
    { status: 'failed', errorType: null, message: null, delivered: 'yes' },
  ]);
  expect((await ask('status', id)).document.items).toEqual(ended.document.items);

  expect(await ask('retry', id, '--only', 'unknown', '--no-wait')).toMatchObject(refused('--yes sends them again'));
  const unknown = await ask('retry', id, '--only', 'unknown', '--yes', '--no-wait');
  const first = { batchId: `${id}-retry-1`, retryOf: id, alreadyStarted: false };
  expect(unknown).toMatchObject({ exitCode: 0, document: first });
  onTestFinished(() => rig.stack.followUps.batch(first.batchId).cancel());
  const pending = [{ jobId: 'unknown', status: 'pending' }];
  expect((await ask('status', first.batchId)).document.items).toMatchObject(pending);
  const failed = await ask('retry', first.batchId);
  expect(failed).toMatchObject({
    exitCode: 4,
    stderr: expect.stringMatching(/1 item delivered before: .*\n.*1 item still running: /),
  });
  expect(failed.document).toMatchObject({
    ...{ batchId: `${id}-retry-2`, retryOf: id, total: 2, failed: 1, errors: 1 },
    items: [{ jobId: 'missing-1', workflowId: `follow-up/${project}/missing-1/${id}-retry-2:0` }, { jobId: 'fail-1' }],
  });
  expect([delivered('good'), delivered('fail-1')]).toEqual([1, 2]);
});

test.each(['status', 'continue', 'retry', 'cancel'])('%s of an unknown batch ends with exit code 2', async (order) => {
  expect(await batch(order, 'nobody')).toMatchObject(refused('no batch has the id nobody'));
});
