import { randomUUID } from 'node:crypto';
import * as net from 'node:net';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { FollowUpClient, FollowUpFailedError } from '../../src/client/index.js';
import {
  FailureType,
  projectBudgetWorkflowId,
  type Delivered,
  type FollowUpInput,
  type FollowUpResult,
} from '../../src/contract/index.js';
import { createRandom } from '../../src/simulator/random.js';
import { startCli, type CliProcess } from '../cli/run-cli.js';
import { eventually } from '../support/eventually.js';
import { drawAnswer, good, job } from '../support/hostile-answers.js';
import {
  startHostileService,
  type HostileAnswer,
  type HostileScript,
  type HostileService,
} from '../support/hostile-service.js';
import { residentBytes } from '../support/process-memory.js';

/** Seeds that once failed. Each run tries them first. */
const KEPT_SEEDS: readonly number[] = [];
/** `SERVICE_FUZZ=5000 SERVICE_FUZZ_FROM=1 npx vitest run test/e2e/service-fuzz.long.test.ts` is the long form. */
const COUNT = Number(process.env['SERVICE_FUZZ'] ?? 300);
const FROM = Number(process.env['SERVICE_FUZZ_FROM'] ?? 1);
const AT_ONCE = 75;

const LARGE_JOB_BYTES = 120_000;
/** How much more memory the worker may need than with well-formed large jobs. */
const MOST_MORE_BYTES = 64 * 1_048_576;

/** Runs in the worker and each of its threads, so that garbage does not count as memory. */
const COLLECT_GARBAGE = `
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
setFlagsFromString('--expose-gc');
setInterval(runInNewContext('gc'), 1_000).unref();
`;

const BEFORE = good(job('completed', 'https://git.example/pull/1'));
const ACTIVE = good(job('active', null));
const AFTER = good(job('completed', 'https://git.example/pull/2'));

let service: HostileService;
let elsewhere: net.Server;
let visitors = 0;
let worker: CliProcess;
let connection: Connection;
let client: Client;
let followUps: FollowUpClient;
const run = randomUUID().slice(0, 8);

beforeAll(async () => {
  service = await startHostileService();
  elsewhere = net.createServer((socket) => {
    visitors += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve));
  const taskQueue = `fuzz-${run}`;
  worker = startCli(['worker', '--json'], {
    env: {
      TEMPORAL_ADDRESS: inject('temporalAddress'),
      FOLLOW_UP_TASK_QUEUE: taskQueue,
      AGENT_JOBS_BASE_URL: service.baseUrl,
      AGENT_JOBS_API_KEY: 'key-for-tests-only',
      AGENT_JOBS_GET_TIMEOUT: '700ms',
      FOLLOW_UP_SEND_TIMEOUT: '3s',
      FOLLOW_UP_DRAIN: '0s',
      FOLLOW_UP_BUDGET_LIMIT: '10000',
      FOLLOW_UP_BUDGET_WINDOW: '30s',
      FOLLOW_UP_MARGIN: '0s',
      FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
      FOLLOW_UP_LOG_LEVEL: 'warn',
      NODE_OPTIONS: `--max-semi-space-size=2 --import=data:text/javascript,${encodeURIComponent(COLLECT_GARBAGE)}`,
    },
  });
  await eventually('the worker is ready', () => worker.stdout().includes('\n'));
  connection = await Connection.connect({ address: inject('temporalAddress') });
  client = new Client({ connection });
  followUps = new FollowUpClient({ client, taskQueue });
});
afterAll(async () => {
  worker.kill('SIGTERM');
  await worker.ended;
  await connection.close();
  await service.close();
  await new Promise((resolve) => elsewhere.close(resolve));
});

type HistoryEvent = NonNullable<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>['events']>[number];

interface Case {
  seed: number;
  projectId: string;
  script: HostileScript;
  settings: Partial<FollowUpInput>;
}

const FAST = { poll: { initialInterval: '400ms', maxInterval: '2s' }, settleTime: '1s', prLinkGrace: '0s' } as const;

/** Draws where the service misbehaves, and how. Timeouts are short where it may do so for ever. */
function drawCase(seed: number): Case {
  const random = createRandom(seed).fork('service fuzz');
  const address = elsewhere.address();
  const location = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  const draw = (count: number) => {
    const answers = Array.from({ length: count }, () => drawAnswer(random, location));
    // Three 404 answers in a row end a follow-up.
    return answers.length === 1 ? [...answers, ...answers, ...answers] : answers;
  };
  const usual: HostileScript = { baseline: [], posts: [], polls: [], before: BEFORE, after: [ACTIVE, AFTER] };
  const place = random.next();
  const shared = `fuzz-${run}-shared-${seed % 6}`;
  if (place < 0.2) {
    const settings = { budgetWaitTimeout: '15s', jobTimeout: '5s' };
    return { seed, projectId: shared, script: { ...usual, baseline: draw(random.between(1, 2)) }, settings };
  }
  if (place < 0.3) {
    const script = { ...usual, baseline: draw(random.between(1, 3)), isEndless: true };
    return { seed, projectId: shared, script, settings: { budgetWaitTimeout: '4s', jobTimeout: '3s' } };
  }
  if (place < 0.65) {
    // Whether a message without a certain answer was accepted.
    const after = random.next() < 0.8 ? usual.after : [BEFORE];
    const settings = { budgetWaitTimeout: '6s', jobTimeout: '10s' };
    const posts = draw(random.between(1, 2)).slice(0, 2);
    // A pause of the project must not hold up the others.
    const projectId = posts.some(({ status }) => [401, 402, 403, 429].includes(status))
      ? `fuzz-${run}-${seed}`
      : shared;
    return { seed, projectId, script: { ...usual, posts, after }, settings };
  }
  if (place < 0.9) {
    const settings = { jobTimeout: '10s' };
    return { seed, projectId: shared, script: { ...usual, polls: draw(random.between(1, 3)) }, settings };
  }
  const script = { ...usual, polls: draw(random.between(1, 3)), isEndless: true };
  return { seed, projectId: shared, script, settings: { jobTimeout: '3s' } };
}

/** What the service knows about its messages, from its answers. */
interface Truth {
  taken: number;
  /** Messages whose answer leaves open whether they were accepted, or that got none. */
  open: number;
  /** Messages whose answer has a head that a parser may reject. */
  either: number;
}

function truthOf(posts: readonly HostileAnswer[]): Truth {
  const truth: Truth = { taken: 0, open: 0, either: 0 };
  for (const { status, manner, headers } of posts) {
    if (manner === 'silent' || manner === 'reset') truth.open += 1;
    else if (hasBrokenHead(headers)) truth.either += 1;
    else if (status >= 200 && status < 300) truth.taken += 1;
    else if (status < 400 || status >= 500 || [408, 409, 425].includes(status)) truth.open += 1;
  }
  return truth;
}

function hasBrokenHead(headers: HostileAnswer['headers']): boolean {
  const lengths = headers.filter(([name]) => name === 'content-length');
  return (
    lengths.length > 1 ||
    lengths.some(([, value]) => value === '-1') ||
    headers.some(([name]) => name === 'upgrade' || name === 'x')
  );
}

/** Runs one case. Returns every promise that was broken. */
async function breaches({ seed, projectId, script, settings }: Case, ends: Map<string, number>): Promise<string[]> {
  const jobId = `job-${seed}`;
  service.setJob(jobId, script);
  const handle = await followUps.start({ projectId, jobId, prompt: `seed ${seed}`, key: 'k', ...FAST, ...settings });
  const end: unknown = await handle.result().catch((error: unknown) => error);
  const posts = service.postsTo(jobId);
  const { taken, open, either } = truthOf(posts);
  const broken: string[] = [];
  const promise = (kept: boolean, words: string) => {
    const drawn = [...script.baseline, '|', ...script.posts, '|', ...script.polls].map((each) =>
      typeof each === 'string' ? each : each.name,
    );
    if (!kept) broken.push(`seed ${seed}: ${words} (answers: ${drawn.join('; ')})`);
  };
  promise(taken + open <= 1, `${posts.length} messages, of which ${taken} were taken and ${open} may have been`);
  if (end instanceof FollowUpFailedError) {
    promise(Object.values<string>(FailureType).includes(end.type), `failed with ${end.type}`);
    const truths: Record<Delivered, boolean> = {
      yes: taken + open + either > 0,
      no: taken + open === 0,
      // Always allowed, because an answer may come too late on a busy machine.
      unknown: posts.length > 0,
    };
    promise(
      truths[end.delivered],
      `${end.type} says delivered: ${end.delivered}; taken ${taken}, open ${open}, either ${either}`,
    );
    promise(!/(?![\t\n])\p{Cc}/u.test(`${end.message} ${String(end.details.serviceMessage)}`), 'control characters');
    ends.set(end.type, (ends.get(end.type) ?? 0) + 1);
  } else if (end instanceof Error) {
    promise(false, `ended with ${end.name}: ${end.message}`);
  } else {
    const { status, delivery } = end as FollowUpResult;
    promise(['completed', 'archived', 'failed'].includes(status), `ended with status ${status}`);
    promise(
      delivery === 'sent' ? taken + either > 0 : posts.length > 0,
      `delivery ${delivery}; taken ${taken}, open ${open}, either ${either}`,
    );
    ends.set(delivery, (ends.get(delivery) ?? 0) + 1);
  }
  const history = await client.workflow.getHandle(handle.workflowId).fetchHistory();
  promise(failedTasks(history).length === 0, `workflow tasks failed: ${failedTasks(history).join()}`);
  return broken;
}

/**
 * `WorkflowTaskFailedCause` of the API: something arrived while the workflow decided to end, so the task is repeated.
 */
const UNHANDLED_COMMAND = 1;

/** Why workflow tasks failed. */
function failedTasks({ events }: { events?: HistoryEvent[] | null }): string[] {
  return (events ?? []).flatMap(({ workflowTaskFailedEventAttributes: failed }) =>
    failed && Number(failed.cause) !== UNHANDLED_COMMAND ? [`${failed.cause} ${failed.failure?.message ?? ''}`] : [],
  );
}

async function inTurns<T>(items: readonly T[], use: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  const one = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await use(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
}

/** The most memory that the worker held while something was done. */
async function mostMemoryDuring(work: () => Promise<void>): Promise<number> {
  let most = 0;
  const watch = setInterval(() => {
    void residentBytes(worker.pid).then((bytes) => (most = Math.max(most, bytes ?? 0)));
  }, 50);
  try {
    await work();
  } finally {
    clearInterval(watch);
  }
  return most;
}

test(`${COUNT} follow-ups to a service that answers anything end with a true result or a true failure, in bounded memory`, async () => {
  const usual = await mostMemoryDuring(() =>
    inTurns(
      Array.from({ length: AT_ONCE }, (_, index) => index),
      async (index) => {
        const jobId = `usual-${index}`;
        // Jobs almost as large as is accepted, because the memory that they need is allowed.
        const before = good(job('completed', null, { notes: 'x'.repeat(LARGE_JOB_BYTES) }));
        service.setJob(jobId, { baseline: [], posts: [], polls: [], before, after: [ACTIVE, before, AFTER] });
        const result = await followUps.run({
          projectId: `fuzz-${run}-shared-${index % 6}`,
          jobId,
          prompt: 'x',
          ...FAST,
        });
        expect(result.status).toBe('completed');
      },
    ),
  );

  const ends = new Map<string, number>();
  const broken: string[] = [];
  const seeds = [...KEPT_SEEDS, ...Array.from({ length: COUNT }, (_, index) => FROM + index)];
  const cases = seeds.map(drawCase);
  // The longest cases go first: deliveries that stay unknown until the lease is over.
  cases.sort((a, b) => b.script.posts.length - a.script.posts.length);
  const hostile = await mostMemoryDuring(() =>
    inTurns(cases, async (each) => void broken.push(...(await breaches(each, ends)))),
  );
  expect(broken).toEqual([]);
  expect(visitors).toBe(0);
  for (const projectId of new Set(cases.map((each) => each.projectId))) {
    const handle = client.workflow.getHandle(projectBudgetWorkflowId(projectId));
    const history = await handle.fetchHistory().catch(() => ({ events: [] }));
    expect(failedTasks(history), `failed tasks of the budget of ${projectId}`).toEqual([]);
  }
  // On a busy machine, the SDK's core logs an error if a workflow task times out and is repeated.
  const ownLines = worker
    .stderr()
    .split('\n')
    .filter((line) => !line.includes('"sdkComponent":"core"'));
  expect(ownLines.filter((line) => /"level":"(error|fatal)"/.test(line))).toEqual([]);
  expect(worker.stderr()).not.toContain('makes no sense');
  if (usual > 0) expect(hostile - usual).toBeLessThan(MOST_MORE_BYTES);
  // The cases reach every kind of end.
  for (const end of [
    'sent',
    'inferred',
    'DeliveryUnknown',
    'MessageRejected',
    'BudgetWaitTimeout',
    'JobTimeout',
    'JobNotFound',
  ]) {
    expect(ends.get(end) ?? 0, end).toBeGreaterThan(0);
  }
}, 480_000);
