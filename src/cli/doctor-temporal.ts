import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Poller, type QueueType, readCurrentBuild, readPollers } from '../client/trouble.js';
import { callTemporal } from '../client/temporal.js';
import { budgetTaskQueue, formatDuration, SearchAttribute } from '../contract/index.js';
import { type Check, check, messageOf } from './doctor-check.js';
import type { TemporalSession } from './session.js';

/** The checks of Temporal itself. */
export interface TemporalChecks {
  checks: Check[];
  /** Whether the namespace can be used at all. */
  isUsable: boolean;
  /** Whether each task queue is polled by some worker. */
  hasWorkers: boolean;
}

/** Clocks that differ by more exceed the budget's margin, which is 2 s by default. */
const MAX_SKEW_MS = 2_000;

/** A worker's poll ends after at most 1 min, and the next one begins at once. */
const POLLS_WITHIN_MS = 90_000;

/** Most workers that are listed per task queue. */
const SHOWN_WORKERS = 5;

/** The server refuses long polls with less than 2 s left. */
const POLL_TIMEOUT_MS = 3_000;
const LOOK_INTERVAL_MS = 100;

/** Connection, namespace, search attributes, workers and clock. The first check is the connection itself. */
export async function checkTemporal(session: TemporalSession): Promise<TemporalChecks> {
  const { namespace } = session.config;
  const { workflowService } = session.connection;
  const connection = await check(
    {
      name: 'Temporal',
      why: 'without the server nothing can be started, sent or seen; what was started continues when it is back',
      fix: 'check TEMPORAL_ADDRESS, TLS settings and credentials; follow-up dev starts a server on this machine',
    },
    async () => {
      const { serverVersion } = await call(session, () => workflowService.getSystemInfo({}));
      return `${session.config.address} answers, server ${serverVersion}`;
    },
  );
  if (connection.status === 'error') return { checks: [connection], isUsable: false, hasWorkers: false };
  const found = await check(
    {
      name: 'namespace',
      why: 'it holds the follow-ups',
      fix: `temporal operator namespace create --namespace ${namespace}, or check TEMPORAL_NAMESPACE`,
    },
    () => examineNamespace(session),
  );
  if (found.status === 'error') return { checks: [connection, found], isUsable: false, hasWorkers: false };
  const skew = measureClockSkew(session).catch(() => undefined);
  const [attributes, workers, clock] = await Promise.all([
    check({ name: 'search attributes', why: 'without them no follow-up can be started', fix: 'follow-up setup' }, () =>
      examineSearchAttributes(session),
    ),
    checkWorkers(session, skew),
    examineClock(skew),
  ]);
  return {
    checks: [connection, found, attributes, ...workers, clock],
    isUsable: true,
    hasWorkers: workers.every(({ status }) => status !== 'error'),
  };
}

async function examineNamespace(session: TemporalSession): Promise<string> {
  const { namespace } = session.config;
  const { config } = await call(session, () => session.connection.workflowService.describeNamespace({ namespace }));
  const seconds = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0);
  return `${namespace} is there${seconds > 0 ? `; results are kept for ${formatDuration(seconds * 1_000)}` : ''}`;
}

async function examineSearchAttributes(session: TemporalSession): Promise<string> {
  const { namespace } = session.config;
  const names = Object.values(SearchAttribute).map(({ name }) => name);
  // A query that names them works without the permission to list attributes.
  const query = names.map((name) => `${name} = 'none'`).join(' AND ');
  await call(session, () =>
    session.connection.workflowService.listWorkflowExecutions({ namespace, query, pageSize: 1 }),
  );
  return 'all are registered';
}

/** One check per polled task queue, per queue with several builds, and per deployment; one for all that are not polled. */
async function checkWorkers(session: TemporalSession, skew: Promise<number | undefined>): Promise<Check[]> {
  const queues: { queue: string; type: QueueType }[] = [
    { queue: session.taskQueue, type: 'workflow' },
    { queue: session.taskQueue, type: 'activity' },
    { queue: budgetTaskQueue(session.taskQueue), type: 'workflow' },
  ];
  try {
    const polled = await Promise.all(
      queues.map(async ({ queue, type }): Promise<PolledQueue> => {
        const pollers = await readPollers(session.client, queue, type);
        const serverNowMs = Date.now() - ((await skew) ?? 0);
        const workers = pollers
          .map((poller) => ({ ...poller, ageMs: Math.max(0, serverNowMs - (poller.polledAtMs ?? serverNowMs)) }))
          .sort((one, other) => one.ageMs - other.ageMs);
        return { subject: `${queue} (${type} tasks)`, workers };
      }),
    );
    const isPolled = ({ workers: [latest] }: PolledQueue) => latest !== undefined && isPolling(latest);
    const idle = polled.filter((queue) => !isPolled(queue));
    return [
      ...(idle.length > 0 ? [idleQueues(idle)] : []),
      ...polled.filter(isPolled).flatMap(describeQueue),
      ...(await checkVersions(session, polled)),
    ];
  } catch (error) {
    const message = `cannot find out who polls the task queues: ${messageOf(error)}`;
    return [{ name: 'workers', status: 'error', message, fix: 'look at the log of the Temporal server' }];
  }
}

/** A task queue and its workers, latest poll first. */
interface PolledQueue {
  subject: string;
  workers: (Poller & { ageMs: number })[];
}

function isPolling({ ageMs }: { ageMs: number }): boolean {
  return ageMs <= POLLS_WITHIN_MS;
}

function idleQueues(queues: readonly PolledQueue[]): Check {
  const subject = queues.map((queue) => queue.subject).join(', ');
  const [last] = queues.flatMap(({ workers }) => workers).sort((one, other) => one.ageMs - other.ageMs);
  return {
    name: 'workers',
    subject,
    status: 'error',
    message: `nobody polls ${subject}${last ? `; ${last.identity} did last` : ''}`,
    ...(last?.polledAtMs !== undefined && { since: new Date(last.polledAtMs).toISOString() }),
    why: 'follow-ups wait until a worker polls; FOLLOW_UP_TASK_QUEUE must be the same here and in the workers',
    fix: 'follow-up worker',
  };
}

function describeQueue({ subject, workers }: PolledQueue): Check[] {
  const polling = workers.filter(isPolling);
  const told = polling.slice(0, SHOWN_WORKERS).map(({ identity, build, ageMs }) => {
    const polled = ageMs < 1_000 ? 'just now' : `${formatDuration(Math.round(ageMs / 1_000) * 1_000)} ago`;
    return `${identity} (${build === '' ? '' : `build ${shortBuild(build)}, `}polled ${polled})`;
  });
  const more = polling.length - told.length;
  const message = `${subject} is polled by ${told.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  const builds = [
    ...new Set(polling.flatMap(({ build, deploymentName }) => (deploymentName === undefined ? [build] : []))),
  ];
  const polled: Check = { name: 'workers', subject, status: 'ok', message };
  if (builds.length < 2) return [polled];
  return [
    polled,
    {
      name: 'builds',
      subject,
      status: 'warning',
      message: `workers of ${builds.length} builds poll ${subject}: ${builds.map(shortBuild).join(', ')}`,
      why: 'a workflow that a newer worker started may fail on an older one',
      fix: 'unless a release is under way, stop the workers of the older build',
    },
  ];
}

/** One check per deployment of the polling workers that have a version. */
async function checkVersions(session: TemporalSession, queues: readonly PolledQueue[]): Promise<Check[]> {
  const polling = queues.flatMap(({ workers }) => workers.filter(isPolling));
  const names = new Set(polling.flatMap(({ deploymentName }) => deploymentName ?? []));
  return Promise.all(
    [...names].map(async (name): Promise<Check> => {
      const builds = new Set(polling.filter(({ deploymentName }) => deploymentName === name).map(({ build }) => build));
      const current = await readCurrentBuild(session.client, name);
      const found = { name: 'versions', subject: name };
      if (current !== undefined && builds.has(current)) {
        return { ...found, status: 'ok', message: `build ${current} is the current version of ${name}` };
      }
      const setCurrent = (build: string) =>
        `temporal worker deployment set-current-version --deployment-name ${name} --build-id ${build}`;
      return {
        ...found,
        status: 'error',
        message:
          current === undefined
            ? `no version of ${name} is current`
            : `no worker polls that has the current version of ${name}, build ${current}`,
        why: 'new follow-ups wait for a worker of the current version',
        fix: [...builds].map(setCurrent).join(', or '),
      };
    }),
  );
}

/** The SDK's name for a build ends with a long hash of the code. */
function shortBuild(build: string): string {
  return build === '' ? 'unknown' : build.replace(/[0-9a-f]{32,}/g, (hash) => hash.slice(0, 12));
}

async function examineClock(measured: Promise<number | undefined>): Promise<Check> {
  const name = 'clock';
  const skewMs = await measured;
  if (skewMs === undefined) {
    return { name, status: 'note', message: 'the clock of the Temporal server could not be read' };
  }
  const here = new Date();
  const there = new Date(here.getTime() - skewMs);
  return judgeClock(name, 'the Temporal server', { here, there });
}

/** Two clocks at the same instant: this machine's and another one. */
export interface ClockReading {
  here: Date;
  there: Date;
}

/** Compares this machine's clock with another's. */
export function judgeClock(name: string, other: string, { here, there }: ClockReading): Check {
  const skewMs = here.getTime() - there.getTime();
  const side = skewMs < 0 ? 'behind' : 'ahead of';
  const message = `this machine is ${formatDuration(Math.round(Math.abs(skewMs)))} ${side} ${other}`;
  if (Math.abs(skewMs) < MAX_SKEW_MS) return { name, status: 'ok', message };
  return {
    name,
    status: 'warning',
    message: `${message}: here ${here.toISOString()}, there ${there.toISOString()}`,
    why: 'shown times are off by as much, and waits that the service asks for may end too early',
    fix: 'synchronise the clocks of all machines by NTP',
  };
}

async function call<T>(session: TemporalSession, rpc: () => Promise<T>): Promise<T> {
  return callTemporal(session.client, rpc);
}

/**
 * How far this machine's clock is ahead of the Temporal server's, in milliseconds, to within a round trip. No call
 * returns the server's time, but the server records when a task queue was last polled: so this polls a task queue with
 * a random name, and reads that record. It leaves nothing behind. `undefined` if the server does not tell.
 */
async function measureClockSkew({ connection, client, config }: TemporalSession): Promise<number | undefined> {
  const { namespace } = config;
  const name = `follow-up-doctor-${randomUUID()}`;
  const polledAtMs = Date.now();
  const seen = new AbortController();
  const poll = connection
    .withDeadline(polledAtMs + POLL_TIMEOUT_MS, () =>
      connection.withAbortSignal(seen.signal, () =>
        connection.workflowService.pollWorkflowTaskQueue({
          namespace,
          taskQueue: { name },
          identity: 'follow-up-doctor',
        }),
      ),
    )
    .catch(() => undefined);
  try {
    while (Date.now() < polledAtMs + POLL_TIMEOUT_MS) {
      await sleep(LOOK_INTERVAL_MS);
      const [poller] = await readPollers(client, name, 'workflow', POLL_TIMEOUT_MS);
      if (poller?.polledAtMs !== undefined) return polledAtMs - poller.polledAtMs;
    }
    return undefined;
  } finally {
    seen.abort();
    await poll;
  }
}
