import { spawn } from 'node:child_process';
import { afterEach, expect, inject, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { findFreePorts } from '../support/programs.js';
import { runCli, startCli, type CliRun } from './run-cli.js';

let run: CliRun | undefined;
afterEach(() => run?.kill('SIGKILL'));

test('npm start -- --exit sends its follow-ups on an embedded stack and ends with exit code 0', async () => {
  const child = spawn('npm', ['start', '--silent', '--', '--exit', '--json'], { stdio: ['ignore', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const exitCode = await new Promise((resolve) => child.once('close', resolve));
  expect(exitCode).toBe(0);
  const { temporal, followUps } = JSON.parse(stdout);
  expect(temporal.uiUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  // The UI is announced before the follow-ups run.
  const steps = ['stack: starting Temporal', `stack: ready, Temporal UI at ${temporal.uiUrl}`, 'demo/add-tests: '];
  expect(stderr).toMatch(new RegExp(steps.map((step) => `^${step}`).join('.*'), 'ms'));
  expect(followUps).toHaveLength(4);
  for (const { result } of followUps) expect(result).toMatchObject({ status: 'completed', prLinkChanged: true });
}, 180_000);

test('dev runs with its UI until Ctrl-C, satisfies the doctor, and leaves nothing running', async () => {
  const [port, uiPort] = await findFreePorts(2);
  run = startCli(['dev', '--json', '--port', String(port), '--ui-port', String(uiPort)]);
  const text = await eventually(
    'the follow-ups have ended',
    () => (run?.stdout().includes('\n') ? run.stdout() : undefined),
    120_000,
  );
  const { temporal, simulatorUrl } = JSON.parse(text);
  expect(temporal).toMatchObject({ address: `127.0.0.1:${port}`, uiUrl: `http://127.0.0.1:${uiPort}` });
  expect(run.stderr()).toContain(`\n  export TEMPORAL_ADDRESS=127.0.0.1:${port}\n`);
  expect(run.stderr()).toContain(`the Temporal UI is not at its usual port 8233, but at ${temporal.uiUrl}\n`);
  const doctor = await runCli(['doctor'], { env: { TEMPORAL_ADDRESS: temporal.address } });
  expect(doctor.exitCode, doctor.stdout).toBe(0);
  expect(doctor.stdout).toMatch(/\nno problems found\n$/);
  expect(doctor.stdout).not.toContain('->');
  expect((await fetch(temporal.uiUrl)).status).toBe(200);
  run.kill('SIGINT');
  expect((await run.ended).exitCode).toBe(0);
  await expect(fetch(temporal.uiUrl)).rejects.toThrow();
  await expect(fetch(simulatorUrl)).rejects.toThrow();
}, 180_000);

test('dev uses the configured Temporal server, and sends the given message', async () => {
  const address = inject('temporalAddress');
  const { exitCode, stdout } = await runCli(
    ['dev', '--exit', '--json', '--project', 'dev-own', '--job', 'job-1', '--prompt', 'Add tests.'],
    { env: { TEMPORAL_ADDRESS: address, FOLLOW_UP_TASK_QUEUE: 'dev-own', FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0' } },
  );
  expect(exitCode).toBe(0);
  const { temporal, followUps } = JSON.parse(stdout);
  expect(temporal).toEqual({ address, namespace: 'default' });
  expect(followUps).toMatchObject([{ workflowId: expect.stringContaining('follow-up/dev-own/job-1/'), result: {} }]);
}, 120_000);

test('dev sends nothing to a configured service', async () => {
  const { exitCode, stdout } = await runCli(['dev', '--exit', '--json'], {
    env: {
      TEMPORAL_ADDRESS: inject('temporalAddress'),
      FOLLOW_UP_TASK_QUEUE: 'dev-nothing',
      FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
      AGENT_JOBS_BASE_URL: 'http://127.0.0.1:9',
      AGENT_JOBS_API_KEY: 'some-key-or-other',
    },
  });
  expect(exitCode).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ followUps: [] });
}, 120_000);

test('dev ends with an exit code other than 0 if a follow-up did not complete', async () => {
  const { exitCode, stdout } = await runCli(
    ['dev', '--exit', '--json', '--project', 'dev-bad', '--job', 'missing-1', '--prompt', 'x'],
    {
      env: {
        TEMPORAL_ADDRESS: inject('temporalAddress'),
        FOLLOW_UP_TASK_QUEUE: 'dev-bad',
        FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
      },
    },
  );
  expect(exitCode).toBe(4);
  expect(JSON.parse(stdout)).toMatchObject({ followUps: [{ error: { type: 'JobNotFound', delivered: 'no' } }] });
}, 120_000);
