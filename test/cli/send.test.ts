import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { askCli, FAST, openCli, runCli, timeless, useStack } from './run-cli.js';

const project = `cli-${randomUUID().slice(0, 8)}`;
const rig = useStack();
const run = (...args: string[]) => runCli(args, { env: rig.env });
const ask = (...args: string[]) => askCli(args, { env: rig.env });
const sendOf = (job: string, key: string) => ['send', project, job, '--prompt', 'Add tests.', '--key', key, ...FAST];
const idOf = (job: string, key: string) => `follow-up/${project}/${job}/${key}`;
const refused = (said: string) => ({ exitCode: 2, stderr: expect.stringContaining(said) });
const delivered = (job: string) => rig.stack.simulator.job(project, job)?.messages ?? 0;

test.concurrent.each<[job: string, exitCode: number, messages: number, document: object]>([
  ['archive-1', 0, 1, { status: 'archived', delivery: 'sent', job: { id: 'archive-1' } }],
  ['fail-1', 3, 1, { status: 'failed' }],
  ['archived-1', 4, 0, { error: { type: 'JobArchived', delivered: 'no' } }],
  ['missing-1', 4, 0, { error: { type: 'JobNotFound', delivered: 'no' } }],
])(
  'send to %s waits, ends with exit code %i, and prints one JSON document',
  async (job, exitCode, messages, document) => {
    const sent = await ask(...sendOf(job, 'k'));
    expect(sent).toMatchObject({ exitCode, documents: [document] });
    if ('error' in document) {
      const { type, message } = sent.document.error;
      expect(sent.stderr).toContain(`error: ${type}: ${message}`);
      expect(sent.stderr.split(message)).toHaveLength(2);
      expect(sent.stderr).not.toContain('not-sent');
    } else expect(sent.document).toMatchObject({ workflowId: idOf(job, 'k'), alreadyStarted: false });
    expect(delivered(job)).toBe(messages);
  },
);

test('send reads the prompt from stdin, to the last byte', async () => {
  const prompt = 'Zeile 1\nZeile 2 \u00fc\n';
  const { exitCode } = await runCli(['send', project, 'stdin', '-', ...FAST], { env: rig.env, stdin: prompt });
  expect(exitCode).toBe(0);
  expect(rig.stack.simulator.ledger.find(({ jobId }) => jobId === 'stdin')).toMatchObject({ prompt });
});

test('a follow-up is sent once, found again by its key, shown, polled, listed and cancelled', async () => {
  const stuck = idOf('stuck-1', 'k');
  const before = new Date().toISOString();
  const noWait = { exitCode: 0, stdout: `${stuck}\n`, stderr: `started ${stuck}\n` };
  expect(await run(...sendOf('stuck-1', 'k'), '--no-wait')).toMatchObject(noWait);
  const url = 'https://git.example/\u001b]8;;https://evil.example\u0007x\u001b[31m\u009b2J';
  rig.stack.simulator.addJob({ projectId: project, jobId: 'done', behaviour: { prLinkAfterTurn: { url } } });
  const first = await run(...sendOf('done', 'k'));
  expect(first.exitCode, first.stderr).toBe(0);
  expect(first.stdout).toMatch(/^status +completed\npull request +https:\/\/git.example\/x \(new\)$/m);
  expect(first.stderr).toContain(`started ${idOf('done', 'k')}\n${project}/done: `);
  // eslint-disable-next-line no-control-regex -- the text must not contain these
  expect(first.stdout + first.stderr).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);

  // The same durations, written differently, are the same input.
  const again = await ask(...sendOf('done', 'k'), '--settle-time', '5000', '--lane', 'interactive');
  expect(again.document).toMatchObject({ status: 'completed', alreadyStarted: true, inputDiffers: false });
  expect(again.stderr).not.toContain('warning');
  const other = await ask('send', project, 'done', '-p', 'Something else.', ...FAST, '-k', 'k');
  expect(other).toMatchObject({ exitCode: 0, document: { ...again.document, inputDiffers: true } });
  expect(other.stderr).toContain('warning: it was started with another input');
  expect(delivered('done')).toBe(1);

  const running = await eventually('it is at work', async () => {
    const status = await ask('status', stuck);
    return status.document.progress?.jobStatus === 'active' ? status : undefined;
  });
  expect(running).toMatchObject({ exitCode: 0, document: { status: 'running', progress: { state: 'polling' } } });
  expect((await run('status', stuck)).stdout).toMatch(
    /^sent \S+ \S+, waiting for the agent, job active\nmessage +delivered .*\npolls +\d/,
  );
  expect(await run('poll-now', stuck)).toMatchObject({ exitCode: 0, stdout: `asked ${stuck} to poll its job\n` });
  expect(await run('resolve', stuck, 'sent')).toMatchObject({ exitCode: 2 });

  // Temporal itself lists the running one first.
  const listed = await eventually('both are listed', async () => {
    const { stdout } = await run('list', '--project', project, '--since', before);
    return stdout.includes('completed') && stdout.includes('stuck-1') ? stdout.split('\n') : undefined;
  });
  expect(listed.map(timeless)).toEqual([
    expect.stringMatching(/^started +state +job +workflow +pull request$/),
    expect.stringMatching(/^TIME +completed +completed +follow-up\/\S+\/done\/k/),
    expect.stringMatching(/ polling +(?:active|-) +follow-up\/\S+\/stuck-1\/k$/),
    '',
  ]);
  const found = await ask('list', '--project', project, '--job', 'done', '--state', 'completed');
  expect(found.documents).toMatchObject([{ projectId: project, jobId: 'done', key: 'k', state: 'completed' }]);
  for (const no of ['--since 0', '--state not-sent', '--pr https://git.example/none']) {
    const { exitCode, documents } = await ask('list', '--project', project, '--job', 'done', ...no.split(' '));
    expect({ exitCode, documents }).toEqual({ exitCode: 0, documents: [] });
  }

  const asked = { workflowId: stuck, cancelRequested: true };
  expect(await ask('cancel', stuck)).toMatchObject({ exitCode: 0, document: asked });
  const error = { type: 'Cancelled', delivered: 'yes' };
  expect(await ask(...sendOf('stuck-1', 'k'))).toMatchObject({ exitCode: 4, document: { error } });
  const ended = await ask('status', stuck);
  expect(ended).toMatchObject({ exitCode: 0, document: { status: 'failed', state: 'cancelled', error } });
  expect(timeless((await run('status', stuck)).stdout)).toBe(
    [
      'cancelled: the message was delivered',
      'message  delivered',
      'why      Cancelled: Cancelled after the send',
      'ended    TIME',
      'to do    look at the job',
      `         a new message: follow-up send ${project} stuck-1 --prompt …\n`,
    ].join('\n'),
  );
  for (const order of ['cancel', 'poll-now']) {
    expect(await run(order, stuck)).toMatchObject(refused('has already ended'));
  }
});

test('send and status say at once that no worker polls the task queue, and status that it was terminated', async () => {
  const env = { ...rig.env, FOLLOW_UP_TASK_QUEUE: `nobody-${randomUUID()}` };
  const args = ['send', project, 'job-7', '-p', 'x', '-k', 'alone'];
  const hint = `no worker gets the tasks of task queue ${env.FOLLOW_UP_TASK_QUEUE}; run follow-up doctor`;
  const waiting = openCli(args, { env });
  await eventually('send says it', () => waiting.stderr().includes(hint) && waiting.stderr().includes('started'));
  waiting.kill('SIGINT');
  expect(await waiting.ended).toMatchObject({ exitCode: 130, stderr: expect.stringContaining('follow-up status') });
  const status = await askCli(['status', idOf('job-7', 'alone')], { env });
  expect(status).toMatchObject({ exitCode: 1, stderr: '' });
  expect(status.document).toMatchObject({ progressUnavailable: expect.stringContaining('has no worker') });
  const { stdout } = await runCli(['status', idOf('job-7', 'alone')], { env });
  expect(stdout).toMatch(/^progress unavailable: see below\n\S+ has no worker: .*\n {2}-> start a worker: .*\n/);
  expect(stdout.match(/no worker/g)).toHaveLength(2);
  await rig.stack.client.workflow.getHandle(idOf('job-7', 'alone')).terminate();
  expect((await run('status', idOf('job-7', 'alone'))).stdout).toMatch(
    /^terminated\nmessage +possibly delivered\nwhy +Terminated: .*\nended .*\n$/,
  );
});

test.each(['status', 'cancel', 'poll-now'])('%s of an unknown workflow id ends with exit code 2', async (command) => {
  expect(await run(command, idOf('job-1', 'nobody'))).toMatchObject(refused('no follow-up has the id'));
});

test('setup can run again', async () => {
  expect(await ask('setup')).toMatchObject({ exitCode: 0, document: { namespace: 'default', added: [] } });
});

test('the simulator runs until it gets a signal', async () => {
  const simulator = openCli(['simulator', '--port', '0', '--json']);
  const line = await eventually('it is up', () => (simulator.stdout().includes('\n') ? simulator.stdout() : undefined));
  const { baseUrl, apiKey } = JSON.parse(line);
  const answer = await fetch(`${baseUrl}/v2/agent/p/job/j`, { headers: { authorization: `Bearer ${apiKey}` } });
  expect(answer.status).toBe(200);
  simulator.kill('SIGTERM');
  expect(await simulator.ended).toMatchObject({ exitCode: 0 });
});

test(
  'a send that is interrupted ends with exit code 130, continues, and is found again',
  { tags: 'long' },
  async () => {
    const id = idOf('slow-1', 'ctrl-c');
    const sending = openCli([...sendOf('slow-1', 'ctrl-c'), '--json'], { env: rig.env });
    await eventually('the progress is shown', () => sending.stderr().includes(': sent'));
    sending.kill('SIGINT');
    const { exitCode, stdout, stderr } = await sending.ended;
    expect({ exitCode, stderr }).toEqual({ exitCode: 130, stderr: expect.stringContaining(`follow-up status ${id}`) });
    expect(JSON.parse(stdout)).toMatchObject({ error: { type: 'Interrupted', workflowId: id } });
    const document = { status: 'completed', alreadyStarted: true };
    expect(await ask(...sendOf('slow-1', 'ctrl-c'))).toMatchObject({ document });
    expect(delivered('slow-1')).toBe(1);
  },
);
