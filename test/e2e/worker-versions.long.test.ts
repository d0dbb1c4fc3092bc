import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { loadConfig } from '../../src/config/index.js';
import { resolveTemporalCli } from '../../src/dev-server/resolve.js';
import { webhookWorkflowId } from '../../src/protocol/index.js';
import { type Simulator, startSimulator } from '../../src/simulator/index.js';
import { startWorker, type WorkerService } from '../../src/worker.js';
import { createLogger } from '../../src/worker/logging.js';
import { contradictions } from '../support/contradictions.js';
import { eventually } from '../support/eventually.js';
import { FAST } from '../support/stack.js';
import { newWebhookSecret, startWebhookReceiver } from '../support/webhook-receiver.js';
import { builtWorkflows } from '../support/workflow-rig.js';

const taskQueue = `rolling-${randomUUID().slice(0, 8)}`;
/** The name has the form that the Temporal Worker Controller uses. */
const deploymentName = `agent-jobs/${taskQueue}`;
const [OLD, NEW] = ['1.0.0', '1.1.0-next'];
const PROJECTS = ['one', 'two', 'three', 'four'].map((name) => `${taskQueue}-${name}`);
/** The new version writes search attributes even if nothing changed: neither version's histories replay on the other. */
const EDIT = { from: 'if (value === undefined || shown.get(name) === value)', to: 'if (value === undefined)' };

let directory: string;
let connection: Connection;
let client: Client;
let simulator: Simulator;
const workers: WorkerService[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'worker-versions-'));
  connection = await Connection.connect({ address: inject('temporalAddress') });
  client = new Client({ connection });
  simulator = await startSimulator({ turn: { minMs: 2_000, maxMs: 15_000 } });
});

afterAll(async () => {
  await Promise.all(workers.map((worker) => worker.shutdown()));
  await simulator.close();
  await connection.close();
  await rm(directory, { recursive: true });
});

async function bundleOfNewVersion(): Promise<string> {
  const old = await readFile(builtWorkflows.workflowBundle.codePath, 'utf8');
  const code = old.replaceAll(EDIT.from, EDIT.to);
  expect(code).not.toBe(old);
  const path = join(directory, 'new.js');
  await writeFile(path, code);
  return path;
}

interface VersionOptions {
  bundlePath?: string;
  env?: Record<string, string>;
}

async function startVersion(buildId: string, { bundlePath, env }: VersionOptions = {}): Promise<WorkerService> {
  const config = loadConfig({
    TEMPORAL_ADDRESS: inject('temporalAddress'),
    TEMPORAL_DEPLOYMENT_NAME: deploymentName,
    TEMPORAL_WORKER_BUILD_ID: buildId,
    AGENT_JOBS_BASE_URL: simulator.baseUrl,
    AGENT_JOBS_API_KEY: simulator.apiKey,
    FOLLOW_UP_TASK_QUEUE: taskQueue,
    FOLLOW_UP_BUDGET_LIMIT: '10',
    FOLLOW_UP_BUDGET_WINDOW: '10s',
    FOLLOW_UP_MARGIN: '200ms',
    FOLLOW_UP_STATUS_ADDRESS: 'off',
    ...env,
  });
  const logger = createLogger({ level: 'silent', format: 'json' });
  const worker = await startWorker({ config, logger, ...(bundlePath !== undefined && { bundlePath }) });
  workers.push(worker);
  await worker.ready;
  return worker;
}

async function temporal(...command: string[]): Promise<string> {
  const path = await resolveTemporalCli({ env: process.env });
  const { stdout } = await promisify(execFile)(path, [...command, '--address', inject('temporalAddress')]);
  return stdout;
}

/** Runs `temporal worker deployment …` as docs/how-to/upgrade.md does, for this deployment. */
const deployment = (command: string, ...more: string[]) =>
  temporal('worker', 'deployment', command, '--deployment-name', deploymentName, ...more);

/** Value of the API's `RoutingConfigUpdateState`. */
const IN_PROGRESS = 1;

async function makeCurrent(buildId: string): Promise<void> {
  // The server may not know a new worker's version yet.
  await eventually(`version ${buildId} is current`, async () => {
    await deployment('set-current-version', '--build-id', buildId, '--yes');
    return true;
  });
  await eventually('its task queues know', async () => {
    const request = { namespace: 'default', deploymentName };
    const { workerDeploymentInfo } = await client.workflowService.describeWorkerDeployment(request);
    return Number(workerDeploymentInfo?.routingConfigUpdateState) !== IN_PROGRESS;
  });
}

async function buildOf(workflowId: string): Promise<string | null | undefined> {
  const { raw } = await client.workflow.getHandle(workflowId).describe();
  return raw.workflowExecutionInfo?.versioningInfo?.deploymentVersion?.buildId;
}

test('an upgrade and its rollback lose none of 100 follow-ups, although the versions contradict each other', async () => {
  const followUps = new FollowUpClient({ client, taskQueue });
  let started = 0;
  const start = (count: number) =>
    Promise.all(
      Array.from({ length: count }, () => {
        const number = started++;
        const projectId = PROJECTS[number % PROJECTS.length] ?? '';
        simulator.addJob({ projectId, jobId: `job-${number}` });
        return followUps.start({ projectId, jobId: `job-${number}`, prompt: `Step ${number}.`, ...FAST });
      }),
    );

  await startVersion(OLD);
  await makeCurrent(OLD);
  const before = await start(40);
  await startVersion(NEW, { bundlePath: await bundleOfNewVersion() });
  await makeCurrent(NEW);
  const between = await start(30);
  await makeCurrent(OLD);
  const after = await start(30);

  const all = [...before, ...between, ...after];
  const results = await Promise.all(all.map((each) => each.result()));
  expect(await deployment('describe-version', '--build-id', NEW)).toMatch(/drain/i);
  expect(results.map(({ status }) => status)).toEqual(all.map(() => 'completed'));
  const arrived = simulator.ledger.map(({ prompt }) => prompt);
  expect(arrived.toSorted()).toEqual(all.map((_, number) => `Step ${number}.`).toSorted());
  expect(await contradictions(client, taskQueue)).toEqual([]);
  expect(await Promise.all(before.map(({ workflowId }) => buildOf(workflowId)))).toEqual(before.map(() => OLD));
  expect(await Promise.all(between.map(({ workflowId }) => buildOf(workflowId)))).toEqual(between.map(() => NEW));
  expect(await Promise.all(after.map(({ workflowId }) => buildOf(workflowId)))).toEqual(after.map(() => OLD));
});

test('webhooks outlive the version that started them: one that is tried, and one that failed and is sent again', async () => {
  const responses: Record<string, number> = { '/down': 503, '/gone': 410 };
  const { received, url, close } = await startWebhookReceiver(({ path }) => responses[path] ?? 204);
  onTestFinished(close);
  const secrets = [newWebhookSecret()];
  const targets = { down: { url: url('/down'), secrets }, gone: { url: url('/gone'), secrets } };
  const env = { FOLLOW_UP_WEBHOOKS: JSON.stringify(targets) };
  const [retired, current] = ['2.0.0', '2.1.0'];
  const followUps = new FollowUpClient({ client, taskQueue });
  const worker = await startVersion(retired, { env });
  await makeCurrent(retired);
  const job = { projectId: `${taskQueue}-webhooks`, jobId: 'job' };
  simulator.addJob(job);
  const followUp = await followUps.start({ ...job, prompt: 'x', notify: ['down', 'gone'], ...FAST });
  await followUp.result();
  const idOf = (path: string) =>
    eventually(`${path} is tried`, () => received.find((webhook) => webhook.path === path)?.id);
  const [down, gone] = [
    webhookWorkflowId({ target: 'down', id: await idOf('/down') }),
    webhookWorkflowId({ target: 'gone', id: await idOf('/gone') }),
  ];
  const { taskQueues } = await followUps.health();
  expect(taskQueues.every(({ pollers }) => pollers.some(({ isVersioned }) => isVersioned))).toBe(true);
  const failed = await eventually('doctor names the webhook that failed', async () => {
    const { troubles } = await followUps.health();
    return troubles.find(({ workflowId }) => workflowId === gone);
  });
  await startVersion(current, { env });
  await makeCurrent(current);
  await worker.shutdown();

  const accepts = (path: string, workflowId: string) =>
    eventually(`${path} accepts it`, async () => {
      expect(received.filter((webhook) => webhook.path === path).map(({ response }) => response)).toContain(204);
      return (await client.workflow.getHandle(workflowId).describe()).status.name === 'COMPLETED';
    });
  delete responses['/down'];
  await accepts('/down', down);
  delete responses['/gone'];
  expect(failed.fix).toMatch(/^temporal workflow reset /);
  await temporal(...failed.fix.split(' ').slice(1));
  await accepts('/gone', gone);
  expect([await buildOf(down), await buildOf(gone)]).toEqual([current, current]);
});
