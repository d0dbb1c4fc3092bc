import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { FollowUpClient } from '../../src/client/index.js';
import { loadConfig } from '../../src/config/index.js';
import { resolveTemporalCli } from '../../src/dev-server/resolve.js';
import { type Simulator, startSimulator } from '../../src/simulator/index.js';
import { startWorker, type WorkerService } from '../../src/worker.js';
import { createLogger } from '../../src/worker/logging.js';
import { contradictions } from '../support/contradictions.js';
import { eventually } from '../support/eventually.js';
import { FAST } from '../support/stack.js';
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

async function startVersion(buildId: string, bundlePath?: string): Promise<void> {
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
  });
  const logger = createLogger({ level: 'silent', format: 'json' });
  const worker = await startWorker({ config, logger, ...(bundlePath !== undefined && { bundlePath }) });
  workers.push(worker);
  await worker.ready;
}

/** Runs `temporal worker deployment …` as docs/how-to/upgrade.md does, for this deployment. */
async function deployment(command: string, ...more: string[]): Promise<string> {
  const path = await resolveTemporalCli({ env: process.env });
  const where = ['--address', inject('temporalAddress'), '--deployment-name', deploymentName];
  const { stdout } = await promisify(execFile)(path, ['worker', 'deployment', command, ...where, ...more]);
  return stdout;
}

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
  await startVersion(NEW, await bundleOfNewVersion());
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
