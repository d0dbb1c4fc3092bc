import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import { afterEach, expect, inject, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { findFreePorts } from '../support/programs.js';
import { askCli, type CliRun, runCli, startCli } from './run-cli.js';

let run: CliRun | undefined;
afterEach(() => run?.kill('SIGKILL'));

test('npm start -- --exit sends its follow-ups on an embedded stack and ends with exit code 0', async () => {
  const { stdout, stderr } = await promisify(execFile)('npm', 'start --silent -- --exit --json'.split(' '));
  const { temporal, followUps } = JSON.parse(stdout);
  expect(temporal.uiUrl).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  // The UI is announced before the follow-ups run.
  const steps = ['stack: starting Temporal', `stack: ready, Temporal UI at ${temporal.uiUrl}`, 'demo/add-tests: '];
  expect(stderr).toMatch(new RegExp(steps.map((step) => `^${step}`).join('.*'), 'ms'));
  expect(followUps).toHaveLength(4);
  for (const { result } of followUps) expect(result).toMatchObject({ status: 'completed', prLinkChanged: true });
});

test('dev runs with its UI until Ctrl-C, satisfies the doctor, and leaves nothing running', async () => {
  const [port, uiPort] = await findFreePorts(2);
  run = startCli(['dev', '--json', '--port', String(port), '--ui-port', String(uiPort)]);
  await eventually('the follow-ups have ended', () => run?.stdout().includes('\n'));
  const { temporal, simulatorUrl } = JSON.parse(run.stdout());
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
});

const service = { AGENT_JOBS_BASE_URL: 'http://127.0.0.1:9', AGENT_JOBS_API_KEY: 'some-key-or-other' };
const ofJob = (jobId: string) => ['--project', 'dev-own', '--job', jobId, '--prompt', 'Add tests.'];

test.each<[what: string, args: string[], env: object, exitCode: number, followUps: object[]]>([
  ['sends the given message', ofJob('job-1'), {}, 0, [{ result: { jobId: 'job-1', status: 'completed' } }]],
  ['ends with the exit code of a failure', ofJob('missing-1'), {}, 4, [{ error: { type: 'JobNotFound' } }]],
  ['sends nothing to a configured service', [], service, 0, []],
])('dev uses the configured Temporal server, and %s', async (_what, args, more, exitCode, followUps) => {
  const address = inject('temporalAddress');
  const own = { FOLLOW_UP_TASK_QUEUE: `dev-${randomUUID()}`, FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0' };
  const { document, ...ended } = await askCli(['dev', '--exit', ...args], {
    env: { TEMPORAL_ADDRESS: address, ...own, ...more },
  });
  expect(ended).toMatchObject({ exitCode });
  expect(document).toMatchObject({ temporal: { address, namespace: 'default' }, followUps });
});
