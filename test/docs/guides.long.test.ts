import { existsSync } from 'node:fs';
import { copyFile, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { onActivities, pauseWorkflow } from '../support/buttons.js';
import { FollowUpClient, type StartInput } from '../../src/client/index.js';
import type { FollowUpState } from '../../src/contract/index.js';
import { startSimulator, type Simulator } from '../../src/simulator/index.js';
import { type CliRun, openCli, startCli } from '../cli/run-cli.js';
import { eventually } from '../support/eventually.js';
import { FAST } from '../support/stack.js';
import { makeNamespace } from '../worker/support.js';
import { pages, read, ROOT } from './pages.js';
import { Reader, type ShellBlock, shellBlocksOf } from './reader.js';

/** What a page is played on: a namespace with a worker that `follow-up dev` runs, and a simulated service. */
interface Stage {
  reader: Reader;
  simulator: Simulator;
  client: Client;
  followUps: FollowUpClient;
  /** Ends the worker of `follow-up dev`. */
  stopDev(): Promise<void>;
  startDev(): Promise<void>;
  /** Starts `follow-up worker` as a process of its own, with these settings beyond those of the stage. */
  startWorker(env: Record<string, string>): Promise<void>;
}

/** What the section of a page with this heading presumes, and what its commands do. */
interface Section {
  /** Makes what the section presumes. */
  before?: (stage: Stage) => Promise<unknown>;
  /** The commands with another exit code than 0, each with its exit code. */
  fails?: string[];
  prints?: (string | RegExp)[];
  /** Looks at what the commands did. */
  after?: (stage: Stage) => Promise<unknown>;
}

interface Guide {
  /** Makes files in the reader's directory. Returns variables for the worker and the reader. */
  files?: (directory: string) => Promise<Record<string, string>>;
  /** Whether `follow-up dev` runs a worker from the start. @default true */
  hasWorker?: boolean;
  /** Names on the page that a reader replaces, each with its replacement. */
  names?: (stage: Stage) => Record<string, string> | Promise<Record<string, string>>;
  /** Commands that run until Ctrl-C, which is pressed once the output matches. */
  untilCtrlC?: Record<string, RegExp>;
  sections: Record<string, Section>;
}

const PROMPT = 'Add tests for the parser.';
const PARSER_TESTS = 'follow-up/demo/job-1/parser-tests';
const LIST = [
  { projectId: 'demo', jobId: 'job-1', prompt: PROMPT },
  { projectId: 'website', jobId: 'job-2', prompt: 'Update the changelog.' },
];
/** `PENDING_ACTIVITY_STATE_PAUSED`: no attempt is under way, and none begins. */
const ACTIVITY_PAUSED = 4;
const NEW_KEY = 'the-new-key-of-the-service';

const start = ({ followUps }: Stage, input: Partial<StartInput> = {}) =>
  followUps.start({ projectId: 'demo', jobId: 'job-1', prompt: PROMPT, key: 'parser-tests', ...FAST, ...input });
const send = async (stage: Stage, input: Partial<StartInput> = {}) => (await start(stage, input)).result();

async function startUntil(stage: Stage, state: FollowUpState, input: Partial<StartInput> = {}) {
  const followUp = await start(stage, input);
  await eventually(`${followUp.workflowId} is ${state}`, async () => (await followUp.progress()).state === state);
  return followUp;
}

/** A follow-up whose connection breaks during the send, without a trace at its job. */
const startReconciling = (stage: Stage) => {
  stage.simulator.failNext({ method: 'POST', projectId: 'demo', jobId: 'job-1', how: 'reset' });
  // For so long the job's unchanged status is not believed, whatever an operator says of the delivery.
  return startUntil(stage, 'reconciling', { settleTime: '10m' });
};

const stopBudget = ({ client, followUps }: Stage) =>
  client.workflow.getHandle(followUps.budget('demo').workflowId).terminate('by hand');

/** A budget that starts afresh first counts, for at least a lease. */
const usesSlots = ({ followUps }: Stage, used: number) =>
  eventually(`${used} slots are used`, async () => {
    const status = await followUps.budget('demo').status();
    return status?.isCounting === undefined && status?.used === used;
  });

const accepted = ({ simulator }: Stage) =>
  simulator.ledger.filter((entry) => entry.accepted).map(({ projectId, jobId }) => `${projectId}/${jobId}`);

async function writeList(directory: string) {
  await writeFile(join(directory, 'list.jsonl'), LIST.map((item) => `${JSON.stringify(item)}\n`).join(''));
  return {};
}

const ALL_IS_WELL = /^all is well$/m;

const guides: Record<string, Guide> = {
  'README.md': {
    names: ({ simulator, reader }) => ({
      'https://api.example.com': simulator.baseUrl,
      '/run/secrets/key': join(reader.directory, 'key'),
    }),
    files: async (directory) => {
      await writeFile(join(directory, 'key'), 'simulated-admin-key');
      return {};
    },
    untilCtrlC: { 'node node_modules/agent-follow-up/bin/follow-up.js worker': /takes follow-ups from/ },
    sections: {
      'Try it': { prints: ['https://git.example/demo/job-1/pull/'] },
      'Use it from any language': {
        prints: [/completed/, 'https://git.example/demo/job-3/pull/'],
        after: async (stage) => expect(accepted(stage)).toEqual(['demo/job-1', 'demo/job-3']),
      },
    },
  },
  'docs/how-to/change-a-budget.md': {
    sections: {
      'Look at it': { before: send, prints: [/^demo +1 of 100 in 1 h/m] },
      'Change the limit, window or reserve': {
        after: async ({ followUps }) =>
          expect(await followUps.budget('demo').status()).toMatchObject({ limit: 50, reserve: 10 }),
      },
      'Pause a project': {
        prints: ['service maintenance'],
        after: async ({ followUps }) => expect((await followUps.budget('demo').status())?.paused).toBeUndefined(),
      },
    },
  },
  'docs/how-to/check-an-installation.md': {
    sections: {
      'Check an installation': {
        before: send,
        prints: [ALL_IS_WELL, 'accepts the API key; projects tried: 1'],
      },
    },
  },
  'docs/how-to/encrypt-data.md': {
    hasWorker: false,
    files: async (directory) => {
      for (const name of ['data-converter.js', 'failure-converter.js']) {
        await copyFile(join(ROOT, 'examples', 'encryption', name), join(directory, name));
      }
      await symlink(join(ROOT, 'node_modules'), join(directory, '..', 'node_modules'));
      return {};
    },
    names: ({ reader }) => ({ '/etc/follow-up': reader.directory, '/run/keys': reader.directory }),
    sections: {
      '3. Check it': {
        before: ({ startWorker, reader }) =>
          startWorker({
            FOLLOW_UP_DATA_CONVERTER: join(reader.directory, 'data-converter.js'),
            ENCRYPTION_KEYS_FILE: join(reader.directory, 'encryption.json'),
          }),
        prints: [
          /^status +completed/m,
          Buffer.from('binary/encrypted').toString('base64'),
          /^(?![^]*Add tests for the parser)/,
        ],
      },
    },
  },
  'docs/how-to/manage-api-keys.md': {
    files: async (directory) => {
      await mkdir(join(directory, 'keys'));
      await writeFile(join(directory, 'keys', 'api-key'), 'simulated-admin-key');
      return { AGENT_JOBS_API_KEY_FILE: join(directory, 'keys', 'api-key'), NEW_KEY };
    },
    sections: {
      'Rotate an API key': {
        before: (stage) => send(stage, { key: 'with-the-old-key' }),
        after: async (stage) => {
          stage.simulator.update({ apiKey: NEW_KEY });
          expect(await send(stage, { key: 'with-the-new-key' })).toMatchObject({ status: 'completed' });
        },
      },
    },
  },
  'docs/how-to/restore-a-budget.md': {
    sections: {
      'Restore a budget': {
        before: async (stage) => {
          await send(stage);
          await stopBudget(stage);
        },
        fails: ['1 npx follow-up doctor'],
        prints: ['follow-up budget restore demo', 'STOPPED: nothing is sent until'],
      },
      'A budget that was stopped, or whose tasks fail': {
        prints: ['the budget of demo runs again'],
        after: (stage) => usesSlots(stage, 1),
      },
      "A list that you don't trust": {
        before: stopBudget,
        prints: ['the budget of demo runs again'],
        after: (stage) => usesSlots(stage, 100),
      },
      'A budget whose clock jumped': {
        prints: ['the budget of demo runs again'],
        after: async ({ followUps }) => expect(await followUps.budget('demo').state()).toBe('running'),
      },
    },
  },
  'docs/how-to/restore-a-database-backup.md': {
    sections: {
      "Restore a backup of Temporal's database": {
        before: async (stage) => {
          const { followUps, simulator, stopDev } = stage;
          simulator.addJob({ projectId: 'demo', jobId: 'job-2', behaviour: { neverEnds: true } });
          await send(stage);
          await followUps.startBatch({
            id: 'nightly-2026-11-21',
            items: [{ projectId: 'demo', jobId: 'job-2', prompt: PROMPT }],
          });
          await followUps.schedules.create({ name: 'nightly', cron: '0 2 * * *', input: { items: LIST } });
          await eventually('the batch has sent its message', () => accepted(stage).length === 2);
          await stopDev();
        },
        fails: ["1 npx follow-up budget pause website --note 'restored backup'"],
        prints: [/^demo .*does not answer/m, 'follow-up-batch/nightly-2026-11-21'],
        after: async (stage) => {
          await stage.startDev();
          await usesSlots(stage, 100);
          expect(await stage.followUps.budget('website').status()).toMatchObject({
            paused: { note: 'restored backup' },
          });
          await stage.followUps.batch('nightly-2026-11-21').result();
          expect(accepted(stage)).toEqual(['demo/job-1', 'demo/job-2']);
        },
      },
    },
  },
  'docs/how-to/retry-a-batch.md': {
    sections: {
      'Retry a batch': {
        before: async ({ followUps, simulator }) => {
          simulator.failNext({ method: 'POST', jobId: 'job-2', how: { status: 400 } });
          const batch = await followUps.startBatch({ id: 'nightly-2026-11-21', items: LIST });
          expect(await batch.result()).toMatchObject({ completed: 1, errors: 1 });
        },
        prints: [
          'started follow-up-batch/nightly-2026-11-21-retry-1',
          'nightly-2026-11-21-retry-1: 1 of 1 done: 1 completed',
        ],
        after: async (stage) => expect(accepted(stage).sort()).toEqual(['demo/job-1', 'website/job-2']),
      },
    },
  },
  'docs/how-to/run-a-batch.md': {
    sections: {
      'Check it': {
        prints: ['nightly-2026-11-21, 3 items; nothing is sent (--dry-run)', 'website: 1 to send'],
        after: async (stage) => expect(accepted(stage)).toEqual([]),
      },
      'Start it': {
        before: async ({ simulator }) =>
          simulator.addJob({ projectId: 'demo', jobId: 'job-5', behaviour: { neverEnds: true } }),
        fails: ['3 npx follow-up batch run list.jsonl --id nightly-2026-11-21'],
        prints: ['nightly-2026-11-21: 3 of 3 done: 2 completed, 1 failed', /^linter$/m],
      },
      'Stop it before it does harm': {
        prints: [/^node$/m, /^batch +node, /m],
        after: async ({ followUps }) => {
          const batch = followUps.batch('node');
          await eventually('it is held', async () => (await batch.status()).hold?.name === 'canary');
          await batch.cancel();
        },
      },
      'Look at it': { prints: ['follow-up/website/fail-1/nightly-2026-11-21:2'] },
      'Cancel it': {
        after: async ({ followUps }) =>
          expect(await followUps.batch('linter').result()).toMatchObject({ total: 2, cancelled: true }),
      },
    },
  },
  'docs/how-to/run-in-production.md': {
    hasWorker: false,
    files: async (directory) => {
      await writeFile(join(directory, 'api-key'), 'simulated-admin-key', { mode: 0o600 });
      return {};
    },
    names: ({ simulator, reader }) => ({
      'temporal.example.com:7233': inject('temporalAddress'),
      'https://api.example.com': simulator.baseUrl,
      '/run/secrets': reader.directory,
    }),
    untilCtrlC: { 'node node_modules/agent-follow-up/bin/follow-up.js worker': /takes follow-ups from follow-ups/ },
    sections: {
      '1. Prepare Temporal': { prints: ['namespace agent-jobs: '] },
      '2. Configure the worker': {
        fails: ['1 npx follow-up doctor'],
        prints: ['no worker polls', /^3 to fix$/m],
      },
    },
  },
  'docs/how-to/schedule-a-batch.md': {
    files: writeList,
    sections: {
      'Look at it': { prints: ['0 2 * * MON-FRI', 'Europe/Berlin', 'hourly'] },
      'Pause and trigger': {
        prints: ['nightly is paused', 'nightly is resumed', 'nightly fires'],
        after: (stage) => eventually('the firing sends', () => accepted(stage).includes('website/job-2')),
      },
      'Change or delete it': {
        after: async ({ followUps }) => {
          const names: string[] = [];
          for await (const { name } of followUps.schedules.list()) names.push(name);
          expect(names).not.toContain('nightly');
        },
      },
    },
  },
  'docs/how-to/start-from-any-language.md': {
    sections: {
      'With the `temporal` command': {
        prints: [/completed/, 'https://git.example/demo/job-3/pull/', 'sentAt'],
        after: async (stage) => expect(accepted(stage)).toEqual(['demo/job-3']),
      },
      'Start and continue a batch': {
        prints: ['waitingToStart'],
        after: async ({ followUps }) =>
          expect(await followUps.batch('rebase').result()).toMatchObject({ total: 2, completed: 2 }),
      },
    },
  },
  'docs/how-to/unblock-a-follow-up.md': {
    sections: {
      'Unblock a follow-up': {
        before: startReconciling,
        prints: ['finding out whether the message was delivered', `follow-up resolve ${PARSER_TESTS} sent`],
      },
      'Resolve a delivery': {
        after: ({ followUps }) =>
          eventually(
            'it polls the job',
            async () => (await followUps.handle(PARSER_TESTS).progress()).state === 'polling',
          ),
      },
      'Poll now, or cancel': {
        after: async ({ followUps }) =>
          await expect(followUps.handle(PARSER_TESTS).result()).rejects.toMatchObject({
            type: 'Cancelled',
            // The operator's word is all that is known.
            delivered: 'unknown',
          }),
      },
    },
  },
  'docs/how-to/upgrade.md': {
    sections: { 'Replace the workers one by one': { prints: [ALL_IS_WELL, /is polled by /] } },
  },
  'docs/how-to/operate/alerts.md': {
    sections: {
      'Handle an alert': {
        before: (stage) => send(stage, { jobId: 'job-5' }),
        prints: [ALL_IS_WELL],
      },
      FollowUpWorkflowTasksFail: {
        before: stopBudget,
        fails: ['1 npx follow-up doctor'],
        prints: ['the budget of demo runs again'],
      },
      FollowUpDeliveryUnknown: {
        before: async (stage) => {
          const job = { projectId: 'website', jobId: 'job-2' };
          stage.simulator.failNext({ method: 'POST', ...job, how: 'reset' });
          const followUp = await startUntil(stage, 'reconciling', { ...job, key: 'logo' });
          // Otherwise it would look for its message for minutes. It ends in doubt.
          await followUp.cancel();
          await expect(followUp.result()).rejects.toMatchObject({ delivered: 'unknown' });
          await startReconciling(stage);
        },
        prints: [/delivery-unknown .*follow-up\/website\/job-2\/logo/, 'finding out whether the message was delivered'],
      },
      FollowUpSendsUnclear: { prints: [`${PARSER_TESTS} now treats its message as sent`] },
      FollowUpServiceFails: { prints: [ALL_IS_WELL] },
      FollowUpBatchHeld: {
        before: async ({ followUps }) => {
          const jobIds = ['held-1', 'held-2'];
          const input = { id: 'nightly-2026-11-21', projectId: 'demo', jobIds, prompt: PROMPT, canary: 1 };
          const batch = await followUps.startBatch({ ...input, defaults: FAST });
          await eventually('it is held', async () => (await batch.status()).hold !== undefined);
        },
        prints: [/^batch +nightly-2026-11-21, held/m, 'batch nightly-2026-11-21 continues'],
        after: async ({ followUps }) =>
          expect(await followUps.batch('nightly-2026-11-21').result()).toMatchObject({ completed: 2 }),
      },
      FollowUpKeyRefused: {
        before: async (stage) => {
          stage.simulator.update({ apiKey: NEW_KEY });
          await startUntil(stage, 'blocked', { jobId: 'job-3' });
        },
        fails: ['1 npx follow-up doctor --project demo --job job-1'],
        prints: ['401', /API key +project demo/],
        after: async ({ simulator, followUps }) => {
          simulator.update({ apiKey: 'simulated-admin-key' });
          expect(await followUps.handle('follow-up/demo/job-3/parser-tests').result()).toMatchObject({
            status: 'completed',
          });
        },
      },
      FollowUpPaymentRequired: {
        before: async (stage) => {
          stage.simulator.failNext({ method: 'POST', jobId: 'job-4', how: { status: 402 } });
          await startUntil(stage, 'blocked', { jobId: 'job-4' });
        },
        fails: ['1 npx follow-up doctor --project demo --job job-1'],
        prints: ['402'],
        after: async ({ followUps }) =>
          expect(await followUps.handle('follow-up/demo/job-4/parser-tests').result()).toMatchObject({
            status: 'completed',
          }),
      },
      FollowUpBudgetSpentByOthers: {
        after: async ({ followUps }) => expect(await followUps.budget('demo').status()).toMatchObject({ limit: 80 }),
      },
      FollowUpBudgetDown: {
        before: stopBudget,
        fails: ['1 npx follow-up doctor'],
        prints: ['follow-up budget restore demo', 'the budget of demo runs again'],
      },
      FollowUpQueueStands: {
        before: ({ followUps }) => followUps.budget('demo').setLimit({ limit: 0 }),
        prints: [/of 0/],
        after: ({ followUps }) => followUps.budget('demo').setLimit({ limit: 80 }),
      },
      FollowUpPauseForgotten: {
        before: ({ followUps }) => followUps.budget('demo').pause({ note: 'release freeze' }),
        prints: ['release freeze'],
        after: async ({ followUps }) => expect((await followUps.budget('demo').status())?.paused).toBeUndefined(),
      },
    },
  },
  'docs/reference/temporal-operations.md': {
    names: async ({ client }) => {
      const { raw } = await client.workflow.getHandle(PARSER_TESTS).describe();
      return { '--activity-id 1': `--activity-id ${raw.pendingActivities?.[0]?.activityId}` };
    },
    sections: {
      'Undo a pause': {
        before: async (stage) => {
          const { client, followUps, simulator } = stage;
          simulator.addJob({ projectId: 'demo', jobId: 'job-1', behaviour: { neverEnds: true } });
          await startUntil(stage, 'polling');
          await onActivities(client, PARSER_TESTS, 'pause');
          // An attempt that runs hears of the pause with its next heartbeat.
          await eventually('its activity is paused', async () => {
            const { raw } = await client.workflow.getHandle(PARSER_TESTS).describe();
            return Number(raw.pendingActivities?.[0]?.state) === ACTIVITY_PAUSED;
          });
          await pauseWorkflow(client, followUps.budget('demo').workflowId);
        },
        after: async ({ followUps }) => {
          expect(await followUps.budget('demo').trouble()).toBeUndefined();
          expect(await followUps.handle(PARSER_TESTS).trouble()).toBeUndefined();
        },
      },
    },
  },
};

/** A block that is not run here: its first words, why, and the test that checks it instead. */
type NotRun = [begin: string, why: string, checkedBy: string];
const CI = '.ci/run';
const CLUSTER: [why: string, checkedBy: string] = ['needs a cluster', 'test/deploy/kubernetes.full.test.ts'];
const TWO_VERSIONS: [why: string, checkedBy: string] = [
  'needs workers of two versions',
  'test/e2e/worker-versions.long.test.ts',
];
const ENGINE: [why: string, checkedBy: string] = ['needs a container engine', 'test/deploy/compose.full.test.ts'];

const notRun: Record<string, NotRun[]> = {
  'README.md': [
    ['npm ci && npm start', 'runs until Ctrl-C, and all tests', 'test/docs/tutorial.long.test.ts'],
    ['npm ci && npm pack', 'installs from the registry', 'test/package/install.full.test.ts'],
    ['npm pack ./packages/client', 'installs from the registry', 'test/package/client.full.test.ts'],
  ],
  'CONTRIBUTING.md': [
    ['npm ci\nnpm run dev', 'installs from the registry', CI],
    ['npx vitest run test/contract', 'runs tests', CI],
    ['npm run check', 'runs all tests', CI],
    ['npx vitest run test/docs -u', 'writes into the checkout', 'test/docs/docs.test.ts'],
    ['npm run simulate', 'runs for minutes', 'test/simulation/simulation-breaks.long.test.ts'],
  ],
  'deploy/README.md': [
    ['docker compose --env-file', ...ENGINE],
    [
      'npx follow-up send',
      'follows the block above; the worker, the service and the settings are those of the image',
      'test/deploy/image.full.test.ts',
    ],
    ['docker compose up --build --detach --scale', ...ENGINE],
    ['docker compose --profile monitoring', ...ENGINE],
  ],
  'packages/client/README.md': [
    ['npm install agent-follow-up-client', 'the package is not on npm yet', 'test/package/client.full.test.ts'],
  ],
  'docs/explanation/simulation.md': [
    ['npm run simulate', 'runs for minutes', 'test/simulation/simulation-breaks.long.test.ts'],
  ],
  'docs/explanation/reliability.md': [['npm run chaos', 'runs for hours', 'test/chaos/operator.long.test.ts']],
  'docs/how-to/monitor.md': [['promtool check rules', 'needs promtool', 'test/deploy/monitoring.full.test.ts']],
  'docs/how-to/run-on-kubernetes.md': [
    ['docker build', 'needs a container engine', 'test/deploy/image.full.test.ts'],
    ['kubectl create namespace', ...CLUSTER],
    ['kubectl apply --kustomize deploy/kubernetes/overlays/production', ...CLUSTER],
    ['kubectl --namespace agent-jobs exec', ...CLUSTER],
    ['kubectl --namespace agent-jobs create secret', ...CLUSTER],
    ['kubectl --namespace agent-jobs rollout restart', ...CLUSTER],
    ['kubectl apply --kustomize deploy/kubernetes/overlays/keda', ...CLUSTER],
  ],
  'docs/how-to/upgrade.md': [
    ['TEMPORAL_DEPLOYMENT_NAME=', 'settings, not commands', 'test/config/config.test.ts'],
    ['temporal worker deployment set-current-version', ...TWO_VERSIONS],
    ['temporal worker deployment describe-version', ...TWO_VERSIONS],
    ['temporal workflow update-options', ...TWO_VERSIONS],
    ['docker compose', ...ENGINE],
  ],
  'docs/how-to/operate/alerts.md': [
    ['kubectl --namespace agent-jobs get pods', ...CLUSTER],
    ['kubectl --namespace agent-jobs describe pods', ...CLUSTER],
  ],
};

function reasonNotToRun(page: string, commands: string): NotRun | undefined {
  return notRun[page]?.find(([begin]) => commands.startsWith(begin));
}

const blocksToRun = (page: string) =>
  shellBlocksOf(read(page)).filter(({ commands }) => !reasonNotToRun(page, commands));

let connection: Connection;
beforeAll(async () => {
  connection = await Connection.connect({ address: inject('temporalAddress') });
});
afterAll(() => connection.close());

async function openStage({ files, hasWorker = true }: Guide): Promise<Stage & { close(): Promise<void> }> {
  const namespace = await makeNamespace(connection);
  const simulator = await startSimulator({ autoCreate: true, turn: { minMs: 500, maxMs: 1_000 } });
  const client = new Client({ connection, namespace });
  const variables = {
    TEMPORAL_ADDRESS: inject('temporalAddress'),
    TEMPORAL_NAMESPACE: namespace,
    AGENT_JOBS_BASE_URL: simulator.baseUrl,
    AGENT_JOBS_API_KEY: simulator.apiKey,
    FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
  };
  const reader = await Reader.open(variables);
  const env = { ...variables, ...(await files?.(reader.directory)) };
  Object.assign(reader.env, env);
  let dev: CliRun | undefined;
  const workers: CliRun[] = [];
  const stage = {
    reader,
    simulator,
    client,
    followUps: new FollowUpClient({ client }),
    async startDev() {
      const run = openCli(['dev'], { env });
      dev = run;
      await eventually('follow-up dev is up', () => run.stdout().includes('worker '));
    },
    async stopDev() {
      dev?.kill('SIGINT');
      await dev?.ended;
      dev = undefined;
    },
    async startWorker(more: Record<string, string>) {
      const worker = startCli(['worker'], { env: { ...env, ...more } });
      workers.push(worker);
      const failed = worker.ended.then(({ stderr }) => Promise.reject(new Error(stderr)));
      failed.catch(() => undefined);
      // It may bundle the workflows first, which takes minutes on a busy machine.
      const up = eventually('the worker is up', () => worker.stdout().includes('takes follow-ups'), 300_000);
      await Promise.race([up, failed]);
    },
    async close() {
      await stage.stopDev();
      for (const worker of workers) worker.kill('SIGKILL');
      await Promise.all(workers.map(({ ended }) => ended));
      await reader.close();
      await simulator.close();
    },
  };
  if (hasWorker) await stage.startDev();
  return stage;
}

test('every block of shell commands on every page is run, or is listed with the reason why not', () => {
  // The tutorial has a test of its own.
  const known = ['docs/tutorial.md', ...Object.keys(guides)];
  expect(pages.filter((page) => blocksToRun(page).length > 0 && !known.includes(page))).toEqual([]);
  const idle = Object.keys(guides).filter((page) => blocksToRun(page).length === 0);
  expect(idle).toEqual([]);
});

test('what is listed as not run is one block of its page, and the test that checks it instead exists', () => {
  for (const [page, blocks] of Object.entries(notRun)) {
    for (const [begin, , checkedBy] of blocks) {
      const found = shellBlocksOf(read(page)).filter(({ commands }) => commands.startsWith(begin));
      expect({ page, begin, found: found.length }).toEqual({ page, begin, found: 1 });
      expect(existsSync(join(ROOT, checkedBy)), checkedBy).toBe(true);
    }
  }
});

// They wait for polls most of the time.
test.concurrent.each(Object.entries(guides))(
  'the commands of %s do what the page says',
  async (page, guide) => {
    const stage = await openStage(guide);
    try {
      await play(page, guide, stage);
    } finally {
      await stage.close();
    }
  },
  600_000,
);

async function play(page: string, { names, untilCtrlC = {}, sections }: Guide, stage: Stage): Promise<void> {
  const bySection = new Map<string, ShellBlock[]>();
  for (const block of blocksToRun(page)) {
    bySection.set(block.heading, [...(bySection.get(block.heading) ?? []), block]);
  }
  expect(Object.keys(sections).filter((heading) => !bySection.has(heading))).toEqual([]);
  for (const [heading, blocks] of bySection) {
    const { before, fails = [], prints = [], after } = sections[heading] ?? {};
    await before?.(stage);
    let printed = '';
    const failed: string[] = [];
    for (const { commands } of blocks) {
      let replaced = commands;
      for (const [name, own] of Object.entries((await names?.(stage)) ?? {})) {
        replaced = replaced.replaceAll(name, own);
      }
      const [, untilOutput] =
        Object.entries(untilCtrlC).find(([command]) => commands.trimEnd().endsWith(command)) ?? [];
      const ended = await stage.reader.paste(replaced, untilOutput);
      printed += ended.output;
      failed.push(...ended.failed.map(({ command, exitCode }) => `${exitCode} ${command}`));
    }
    expect({ heading, failed }, printed).toEqual({ heading, failed: fails });
    for (const words of prints) {
      if (typeof words === 'string') expect(printed).toContain(words);
      else expect(printed).toMatch(words);
    }
    await after?.(stage);
  }
}
