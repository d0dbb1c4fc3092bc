import { existsSync } from 'node:fs';
import { copyFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import type { StartInput } from '../../src/client/index.js';
import type { FollowUpState } from '../../src/contract/index.js';
import { startCli } from '../cli/run-cli.js';
import { onActivities, pauseWorkflow } from '../support/buttons.js';
import { eventually } from '../support/eventually.js';
import { FAST, type Stack, startStack } from '../support/stack.js';
import { startWebhookReceiver } from '../support/webhook-receiver.js';
import { makeNamespace } from '../worker/support.js';
import { pages, read, ROOT } from './pages.js';
import { Reader, shellBlocksOf } from './reader.js';

/** What a guide is played on: a namespace with a worker, a simulated service, and a reader with a terminal. */
interface Stage extends Stack {
  reader: Reader;
  /** What the reader replaces on the page, each with its replacement. */
  names: Record<string, string>;
  /** Starts `follow-up worker` as a process of its own, with the settings of the reader and these. */
  startWorker(env?: Record<string, string>): Promise<void>;
}

/** What a section presumes, and what its commands do. */
interface Section {
  before?: (stage: Stage) => Promise<unknown>;
  /** The commands with another exit code than 0, each after its exit code. */
  fails?: string[];
  prints?: (string | RegExp)[];
  /** Looks at what the commands did. */
  after?: (stage: Stage) => Promise<unknown>;
}

const PROMPT = 'Add tests for the parser.';
const PARSER_TESTS = 'follow-up/demo/job-1/parser-tests';
const OLD_KEY = 'simulated-admin-key';
const NEW_KEY = 'the-new-key-of-the-service';
const ALL_IS_WELL = /^no problems found$/m;
const RUNS_AGAIN = 'the budget of demo runs again';
/** Runs until Ctrl-C. */
const WORKER = 'node node_modules/agent-follow-up/bin/follow-up.js worker\n';

async function startUntil({ followUps }: Stage, state: FollowUpState, input: Partial<StartInput> = {}) {
  const all = { projectId: 'demo', jobId: 'job-1', prompt: PROMPT, key: 'parser-tests', ...FAST, ...input };
  const followUp = await followUps.start(all);
  await eventually(`${followUp.workflowId} is ${state}`, async () => (await followUp.progress()).state === state);
  return followUp;
}
const send = (stage: Stage, input?: Partial<StartInput>) => startUntil(stage, 'completed', input);

/** A follow-up whose connection breaks during the send, without a trace at its job. */
function startReconciling(stage: Stage, input: Partial<StartInput> = {}) {
  stage.simulator.failNext({ method: 'POST', projectId: 'demo', jobId: 'job-1', ...input, how: 'reset' });
  // For so long the job's unchanged status is not believed, whatever an operator says of the delivery.
  return startUntil(stage, 'reconciling', { settleTime: '10m', ...input });
}

const addEndlessJob = async ({ simulator }: Stage, jobId: string) =>
  simulator.addJob({ projectId: 'demo', jobId, behaviour: { neverEnds: true } });

const budgetOf = ({ followUps }: Stage) => followUps.budget('demo');
const stopBudget = (stage: Stage) => stage.client.workflow.getHandle(budgetOf(stage).workflowId).terminate('by hand');
const hasBudget = (status: object) => async (stage: Stage) =>
  expect(await budgetOf(stage).status()).toMatchObject(status);
/** A budget that starts afresh first counts, for at least a lease. */
const usesSlots = (used: number) => (stage: Stage) =>
  eventually(`${used} slots are used`, async () => {
    const status = await budgetOf(stage).status();
    return status?.isCounting === undefined && status?.used === used;
  });

const accepted = ({ simulator }: Stage) =>
  simulator.ledger.filter((entry) => entry.accepted).map(({ projectId, jobId }) => `${projectId}/${jobId}`);
const hasSent = (jobs: string[]) => async (stage: Stage) => expect(accepted(stage)).toEqual(jobs);
const hasBatch = (id: string, result: object) => async (stage: Stage) =>
  expect(await stage.followUps.batch(id).result()).toMatchObject(result);
const isHeld = (stage: Stage, id: string) =>
  eventually(`${id} is held`, async () => (await stage.followUps.batch(id).status()).hold?.name === 'canary');

/** Wants no webhook about the job `job-5`, until {@link wantsAll}. */
const receiver = await startWebhookReceiver(({ body }) =>
  JSON.stringify(body).includes('job-5') && !wantsAll ? 410 : 204,
);
let wantsAll = false;
const receivedFor = (workflowId: string) => receiver.received.filter(({ body }) => body.data.workflowId === workflowId);

/** Sections by page, or by page and chapter. A chapter that is not named belongs to its page. */
const guides: Record<string, Record<string, Section>> = {
  'README.md': {
    'Send a follow-up': { prints: ['https://git.example/demo/job-1/pull/'] },
    'Use it from any language': { prints: [/completed/, 'https://git.example/demo/job-3/pull/'] },
  },
  'docs/tutorial.md': {
    '2. Send a follow-up': { prints: [/(pull\/\d+)[^]*was used before[^]*\1/], after: hasSent(['demo/job-1']) },
    '3. Look at it': { prints: [/1 of 100/] },
    '4. See a failure': {
      fails: ["3 npx follow-up send demo fail-1 --prompt 'Fix the broken link.' --key broken-link"],
    },
    '5. Run a batch': {
      fails: ['3 npx follow-up batch run list.jsonl --id first-batch'],
      prints: [/^3 of 3 ended\nbatch +first-batch\ncompleted +2\nagent job failed +1$/m],
    },
    '6. Retry what failed': { prints: ['first-batch-retry-1'] },
    '7. Do it every night': { prints: ['nightly fires', 'Europe/Berlin'] },
  },
  'docs/how-to/start-from-any-language.md': {
    'With the `temporal` command': { prints: [/completed/, 'https://git.example/demo/job-3/pull/', 'sentAt'] },
    'Watch a running follow-up': { prints: ['follow-up/demo/job-3/parser-tests'] },
    'Start and continue a batch': { prints: ['waitingToStart'], after: hasBatch('rebase', { completed: 2 }) },
  },
  'docs/how-to/batches.md': {
    'Check it': {
      prints: ['nightly-2026-11-21, 3 items; nothing is sent (--dry-run)', 'website: 1 to send'],
      after: hasSent([]),
    },
    'Start it': {
      before: (stage) => addEndlessJob(stage, 'job-5'),
      fails: ['3 npx follow-up batch run list.jsonl --id nightly-2026-11-21'],
      prints: [/^3 of 3 ended\nbatch +nightly-2026-11-21\ncompleted +2\nagent job failed +1$/m, /^linter$/m],
    },
    'Stop it before it does harm': {
      prints: [/^node$/m, /ended.*\nbatch +node$/m],
      after: (stage) => isHeld(stage, 'node'),
    },
    'Look at it': { prints: ['follow-up/website/fail-1/nightly-2026-11-21:2'] },
    'Cancel it': { after: hasBatch('linter', { total: 2, cancelled: true }) },
    'Retry a batch': {
      fails: ['3 npx follow-up batch retry nightly-2026-11-21 --only failed'],
      prints: [/^1 of 1 ended\nbatch +nightly-2026-11-21-retry-1\nagent job failed +1$/m],
    },
    'Manage it': {
      prints: ['hourly', /Europe\/Berlin[^]*nightly is paused[^]*nightly is resumed[^]*nightly fires/],
      after: ({ followUps }) => expect(followUps.schedules.describe('nightly')).rejects.toThrow('nightly'),
    },
  },
  'docs/how-to/run-in-production.md': {
    '1. Prepare Temporal': { prints: ['namespace agent-jobs: '] },
    '2. Configure the worker': { fails: ['1 npx follow-up doctor'], prints: ['no worker polls', /^3 to fix$/m] },
    'Rotate an API key': {
      before: (stage) => send(stage, { key: 'with-the-old-key' }),
      after: async (stage) => {
        stage.simulator.update({ apiKey: NEW_KEY });
        await send(stage, { key: 'with-the-new-key' });
      },
    },
  },
  'docs/how-to/containers.md': { 'Try it with the simulated service': { prints: ['/demo/job-1/pull/'] } },
  'docs/how-to/encrypt-data.md': {
    '3. Check it': {
      before: async ({ stopWorker, startWorker, reader: { directory, env } }) => {
        for (const name of ['data-converter.js', 'failure-converter.js']) {
          await copyFile(join(ROOT, 'examples', 'encryption', name), join(directory, name));
        }
        await symlink(join(ROOT, 'node_modules'), join(directory, '..', 'node_modules'));
        await stopWorker();
        const FOLLOW_UP_DATA_CONVERTER = join(directory, 'data-converter.js');
        const ENCRYPTION_KEYS_FILE = join(directory, 'encryption.json');
        await startWorker({ ...env, FOLLOW_UP_DATA_CONVERTER, ENCRYPTION_KEYS_FILE });
      },
      prints: [
        /^status +completed/m,
        Buffer.from('binary/encrypted').toString('base64'),
        /^(?![^]*Add tests for the parser)/,
      ],
    },
  },
  'docs/how-to/monitor.md': {
    'Check an installation': { before: send, prints: [ALL_IS_WELL, 'accepts the API key; projects tried: 1'] },
  },
  'docs/how-to/alerts.md': {
    'Handle an alert': { before: (stage) => send(stage, { jobId: 'job-5' }), prints: [ALL_IS_WELL] },
    FollowUpWorkflowTasksFail: { before: stopBudget, prints: [RUNS_AGAIN] },
    FollowUpDeliveryUnknown: {
      before: async (stage) => {
        const followUp = await startReconciling(stage, { projectId: 'website', jobId: 'job-2', key: 'logo' });
        // Otherwise it would look for its message for minutes. It ends in doubt.
        await followUp.cancel();
        await expect(followUp.result()).rejects.toMatchObject({ delivered: 'unknown' });
        await startReconciling(stage);
      },
      prints: [/delivery-unknown .*follow-up\/website\/job-2\/logo/, 'finding out whether the message was delivered'],
    },
    FollowUpServiceFails: { prints: [ALL_IS_WELL] },
    FollowUpBatchHeld: {
      before: async (stage) => {
        const items = { projectId: 'demo', jobIds: ['held-1', 'held-2'], prompt: PROMPT, canary: 1, defaults: FAST };
        await stage.followUps.startBatch({ id: 'nightly-2026-11-21', ...items });
        await isHeld(stage, 'nightly-2026-11-21');
      },
      prints: [/held since .*\nbatch +nightly-2026-11-21$/m, 'batch nightly-2026-11-21 continues'],
    },
    FollowUpKeyRefused: {
      before: (stage) => {
        stage.simulator.update({ apiKey: NEW_KEY });
        return startUntil(stage, 'blocked', { jobId: 'job-3' });
      },
      fails: ['1 npx follow-up doctor --project demo --job job-1'],
      prints: ['401', /API key +project demo/],
      after: ({ simulator, followUps }) => {
        simulator.update({ apiKey: OLD_KEY });
        return followUps.handle('follow-up/demo/job-3/parser-tests').result();
      },
    },
    FollowUpBudgetSpentByOthers: { after: hasBudget({ limit: 80 }) },
    FollowUpQueueStands: { before: (stage) => budgetOf(stage).setLimit({ limit: 0 }), prints: [/of 0/] },
  },
  'docs/how-to/unblock-a-follow-up.md': {
    'Unblock a follow-up': {
      before: startReconciling,
      prints: ['finding out whether the message was delivered', `follow-up resolve ${PARSER_TESTS} sent`],
    },
    'Resolve a delivery': { prints: [`${PARSER_TESTS} now treats its message as sent`] },
    'Cancel it': {
      after: ({ followUps }) =>
        // The operator's word is all that is known.
        expect(followUps.handle(PARSER_TESTS).result()).rejects.toMatchObject({
          type: 'Cancelled',
          delivered: 'unknown',
        }),
    },
  },
  'docs/how-to/budgets.md': {
    'Change a budget': {
      before: send,
      prints: [/^demo +1 of 100 in 1 h/m],
      after: hasBudget({ limit: 50, reserve: 10 }),
    },
    'Pause a project': { prints: ['service maintenance'] },
    'Count what something else sends': { after: usesSlots(4) },
  },
  'docs/how-to/budgets.md#Restore a budget': {
    'Restore a budget': {
      before: async (stage) => {
        await send(stage);
        await stopBudget(stage);
      },
      fails: ['1 npx follow-up doctor'],
      prints: ['follow-up budget restore demo', RUNS_AGAIN],
      after: usesSlots(1),
    },
    "If Temporal's list is incomplete": { before: stopBudget, prints: [RUNS_AGAIN], after: usesSlots(100) },
    'A budget whose clock jumped': { prints: [RUNS_AGAIN] },
  },
  'docs/how-to/budgets.md#Restore a database backup': {
    'Restore a database backup': {
      before: async (stage) => {
        const { followUps, stopWorker } = stage;
        await addEndlessJob(stage, 'job-2');
        await send(stage);
        const items = [{ projectId: 'demo', jobId: 'job-2', prompt: PROMPT }];
        await followUps.startBatch({ id: 'nightly-2026-11-21', items });
        await followUps.schedules.create({ name: 'nightly', cron: '0 2 * * *', input: { items } });
        await eventually('the batch has sent its message', () => accepted(stage).length === 2);
        await stopWorker();
      },
      fails: ["1 npx follow-up budget pause website --note 'restored backup'"],
      prints: [/^demo .*does not answer/m, 'follow-up-batch/nightly-2026-11-21'],
      after: async (stage) => {
        await stage.startWorker();
        await usesSlots(100)(stage);
        await hasBatch('nightly-2026-11-21', { total: 1 })(stage);
        await hasSent(['demo/job-1', 'demo/job-2'])(stage);
        const website = await stage.followUps.budget('website').status();
        expect(website?.paused).toMatchObject({ note: 'restored backup' });
      },
    },
  },
  'docs/how-to/webhooks.md': {
    "1. Name the targets in the worker's settings": { prints: [/^whsec_[\w+/]{43}=$/m] },
    '2. Name them in the input': {
      before: async (stage) => {
        await stage.stopWorker();
        const targets = { ci: { url: receiver.url('/'), secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'] } };
        await stage.startWorker({ FOLLOW_UP_WEBHOOKS: JSON.stringify(targets) });
        const line = JSON.stringify({ projectId: 'demo', jobId: 'job-2', prompt: PROMPT });
        await writeFile(join(stage.reader.directory, 'jobs.jsonl'), line);
      },
      after: async ({ names }) => {
        await eventually('both ends are delivered', () => receiver.received.length === 2);
        const [followUp, batch] = receiver.received.map(({ body }) => body.data.workflowId);
        expect([followUp, batch]).toEqual([PARSER_TESTS, 'follow-up-batch/nightly']);
        names['follow-up-webhook/ci/ID'] = `follow-up-webhook/ci/${receiver.received[0]?.id}`;
      },
    },
    'When a webhook is not delivered': {
      before: async (stage) => {
        await send(stage, { jobId: 'job-5', notify: ['ci'] });
        const failed = "WorkflowType = 'followUpWebhook' AND ExecutionStatus = 'Failed'";
        await eventually('a webhook has failed', async () => (await stage.client.workflow.count(failed)).count === 1);
        wantsAll = true;
      },
      after: async () => {
        for (const workflowId of [PARSER_TESTS, 'follow-up/demo/job-5/parser-tests']) {
          const [first, again] = await eventually('it is delivered again', () => {
            const attempts = receivedFor(workflowId);
            return attempts.length === 2 ? attempts : undefined;
          });
          expect([again?.id, again?.text]).toEqual([first?.id, first?.text]);
        }
      },
    },
  },
  'docs/how-to/upgrade.md': { 'Replace the workers one by one': { prints: [ALL_IS_WELL, /is polled by /] } },
  'docs/reference/temporal-operations.md': {
    'Undo a pause': {
      before: async (stage) => {
        const { client, names } = stage;
        await addEndlessJob(stage, 'job-1');
        const followUp = await startUntil(stage, 'polling');
        await onActivities(client, PARSER_TESTS, 'pause');
        await eventually('its activity is paused', async () => (await followUp.trouble())?.kind === 'activityPaused');
        const { raw } = await client.workflow.getHandle(PARSER_TESTS).describe();
        names['--activity-id 1'] = `--activity-id ${raw.pendingActivities?.[0]?.activityId}`;
        await pauseWorkflow(client, budgetOf(stage).workflowId);
      },
      after: async (stage) => {
        expect(await budgetOf(stage).trouble()).toBeUndefined();
        expect(await stage.followUps.handle(PARSER_TESTS).trouble()).toBeUndefined();
      },
    },
  },
};

/** Blocks that are not run here, by how they begin, and the tests that run or check them instead. */
const notRun: [begin: RegExp, ...tests: string[]][] = [
  // They install, build, or run tests or the whole stack.
  [/^npm |^npx vitest /, '.ci/run', 'test/cli/dev.long.test.ts', 'test/package/install.full.test.ts'],
  [/^docker /, 'test/deploy/image.full.test.ts', 'test/deploy/compose.full.test.ts'],
  [/^kubectl /, 'test/deploy/kubernetes.full.test.ts'],
  [/^promtool /, 'test/deploy/monitoring.full.test.ts'],
  // They need a repository on GitHub.
  [/^gh /, 'test/examples/red-checks.test.ts'],
  // They need workers of two versions.
  [/^temporal (worker deployment|workflow update-options) /, 'test/e2e/worker-versions.long.test.ts'],
];

const blocks = pages.flatMap((page) =>
  shellBlocksOf(read(page)).map(({ heading, chapter, commands }) => {
    const elsewhere = notRun.find(([begin]) => begin.test(commands));
    const guide = `${page}#${chapter}` in guides ? `${page}#${chapter}` : page;
    return { guide, heading, commands, elsewhere };
  }),
);
const blocksOf = (guide: string) => blocks.filter((block) => block.guide === guide && !block.elsewhere);

let connection: Connection;
beforeAll(async () => {
  connection = await Connection.connect({ address: inject('temporalAddress') });
});
afterAll(() => {
  receiver.close();
  return connection.close();
});

test('every block of shell commands on every page is run, or a test runs or checks it instead', () => {
  expect(blocks.filter(({ guide, elsewhere }) => !elsewhere && !(guide in guides))).toEqual([]);
  expect(notRun.filter((entry) => !blocks.some(({ elsewhere }) => elsewhere === entry))).toEqual([]);
  const tests = notRun.flatMap(([, ...paths]) => paths);
  expect(tests.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});

// They wait for polls most of the time.
test.concurrent.each(Object.entries(guides))(
  'the commands of %s do what the page says',
  async (guide, sections) => {
    const reader = await Reader.open();
    const { directory } = reader;
    for (const name of ['key', 'api-key']) await writeFile(join(directory, name), OLD_KEY, { mode: 0o600 });
    const address = inject('temporalAddress');
    const env = {
      TEMPORAL_NAMESPACE: await makeNamespace(connection),
      AGENT_JOBS_API_KEY_FILE: join(directory, 'api-key'),
    };
    const simulator = { autoCreate: true, turn: { minMs: 500, maxMs: 1_000 } };
    const stack = await startStack({ address, env, taskQueue: 'follow-ups', simulator });
    const AGENT_JOBS_BASE_URL = stack.simulator.baseUrl;
    const elsewhere = { TEMPORAL_ADDRESS: address, AGENT_JOBS_BASE_URL, FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0' };
    Object.assign(reader.env, env, elsewhere, { NEW_KEY });
    const workers: ReturnType<typeof startCli>[] = [];
    const startWorker = async (more = {}) => {
      const worker = startCli(['worker'], { env: { ...reader.env, ...more } });
      workers.push(worker);
      // It may bundle the workflows first, which takes minutes on a busy machine.
      await eventually('the worker is up', () => worker.stdout().includes('is ready for follow-ups'), 300_000);
    };
    const names = {
      ...{ 'https://api.example.com': AGENT_JOBS_BASE_URL, 'temporal.example.com:7233': address },
      ...{ '/run/secrets': directory, '/run/keys': directory, '/etc/follow-up': directory },
    };
    try {
      await play(guide, sections, { ...stack, reader, names, startWorker });
    } finally {
      for (const worker of workers) worker.kill('SIGKILL');
      await reader.close();
      await stack.stop();
    }
  },
  600_000,
);

async function play(guide: string, sections: Record<string, Section>, stage: Stage): Promise<void> {
  const headings = new Set(blocksOf(guide).map(({ heading }) => heading));
  expect([...headings]).toEqual(expect.arrayContaining(Object.keys(sections)));
  for (const heading of headings) {
    const { before, fails = [], prints = [], after } = sections[heading] ?? {};
    await before?.(stage);
    let printed = '';
    const failed: string[] = [];
    for (const { commands } of blocksOf(guide).filter((block) => block.heading === heading)) {
      const own = Object.entries(stage.names).reduce((text, [name, mine]) => text.replaceAll(name, mine), commands);
      const ended = await stage.reader.paste(
        own,
        commands.endsWith(WORKER) ? /is ready for follow-ups from/ : undefined,
      );
      printed += ended.output;
      failed.push(...ended.failed);
    }
    expect({ heading, failed }, printed).toEqual({ heading, failed: fails });
    for (const words of prints) expect(printed).toMatch(words);
    await after?.(stage);
  }
}
