import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { FollowUpClientError } from '../client/index.js';
import { callTemporal } from '../client/temporal-call.js';
import { budgetTaskQueue, formatDuration, SearchAttribute } from '../contract/index.js';
import { describeGrpcError } from '../temporal/grpc-status.js';
import type { TemporalSession } from './temporal-session.js';

export type CheckStatus = 'ok' | 'warning' | 'error';

/** One thing that the doctor looked at. */
export interface Check {
  name: string;
  status: CheckStatus;
  message: string;
  /** What to do about it. */
  mend?: string;
}

/** `TASK_QUEUE_TYPE_*` of Temporal's API. */
const QueueType = { workflow: 1, activity: 2 } as const;

/** Two machines that differ by more than that make the budget's margin too small; 2 s is its default. */
const MAX_SKEW_MS = 2_000;

/** The server refuses long polls with less than 2 s left. */
const POLL_TIMEOUT_MS = 3_000;
const LOOK_INTERVAL_MS = 100;

/** Connection, namespace, search attributes, workers and clocks. The first check is the connection itself. */
export async function checkTemporal(session: TemporalSession): Promise<Check[]> {
  const connection = await check('Temporal', 'check TEMPORAL_ADDRESS, TLS settings and credentials', async () => {
    const { workflowService } = session.connection;
    const { serverVersion } = await call(session, () => workflowService.getSystemInfo({}));
    return `${session.config.address} answers, server ${serverVersion}`;
  });
  if (connection.status === 'error') return [connection];
  const namespace = await check('namespace', 'check TEMPORAL_NAMESPACE, or create the namespace', () =>
    examineNamespace(session),
  );
  if (namespace.status === 'error') return [connection, namespace];
  const others = await Promise.all([
    check('search attributes', 'run "follow-up setup"', () => examineSearchAttributes(session)),
    check('workers', 'start one with "follow-up worker"; FOLLOW_UP_TASK_QUEUE must be the same everywhere', () =>
      examineWorkers(session),
    ),
    examineClock(session),
  ]);
  return [connection, namespace, ...others, ...(await examineWorkflows(session))];
}

/** One check for each budget, batch, part or follow-up that stands. */
async function examineWorkflows({ followUps }: TemporalSession): Promise<Check[]> {
  try {
    const { troubles, isPartial } = await followUps.troubles();
    // Many have no worker where none runs: one stands for all.
    const told = new Set<string>();
    const found = troubles
      .filter(({ kind, what }) => kind !== 'unattended' || (!told.has(what) && told.add(what)))
      .map(({ workflowId, what, mend }): Check => {
        return { name: 'workflow', status: 'error', message: `${workflowId} ${what}`, mend };
      });
    const seen = isPartial ? 'of those that were looked at, the newest of each kind, ' : '';
    const none: Check = { name: 'workflows', status: 'ok', message: `${seen}no budget, batch or follow-up stands` };
    return found.length > 0 ? found : [none];
  } catch (error) {
    const message = error instanceof FollowUpClientError ? error.message : describeGrpcError(error);
    return [{ name: 'workflows', status: 'error', message, mend: 'check the visibility store of Temporal' }];
  }
}

async function check(name: string, mend: string, examine: () => Promise<string>): Promise<Check> {
  try {
    return { name, status: 'ok', message: await examine() };
  } catch (error) {
    const message = error instanceof FollowUpClientError ? error.message : describeGrpcError(error);
    return { name, status: 'error', message, mend };
  }
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

async function examineWorkers(session: TemporalSession): Promise<string> {
  const queues = [
    { name: session.taskQueue, type: 'workflow' },
    { name: session.taskQueue, type: 'activity' },
    { name: budgetTaskQueue(session.taskQueue), type: 'workflow' },
  ] as const;
  const counts = await Promise.all(queues.map(async ({ name, type }) => countPollers(session, name, QueueType[type])));
  const idle = queues.filter((_, index) => counts[index] === 0).map(({ name, type }) => `${name} (${type} tasks)`);
  if (idle.length > 0) throw new Error(`nobody polls ${idle.join(', ')}`);
  return `${session.taskQueue} is polled by ${counts[0] ?? 0}, ${budgetTaskQueue(session.taskQueue)} by ${counts[2] ?? 0}`;
}

async function countPollers(session: TemporalSession, name: string, taskQueueType: 1 | 2): Promise<number> {
  const { namespace } = session.config;
  const { pollers } = await call(session, () =>
    // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the enum is in a package of the SDK's own
    session.connection.workflowService.describeTaskQueue({ namespace, taskQueue: { name }, taskQueueType }),
  );
  return pollers.length;
}

async function examineClock(session: TemporalSession): Promise<Check> {
  const name = 'clock';
  const skewMs = await measureClockSkew(session).catch(() => undefined);
  if (skewMs === undefined) {
    return {
      name,
      status: 'warning',
      message: 'the time of the Temporal server could not be had',
      mend: 'none needed',
    };
  }
  const text = `this machine is ${formatDuration(Math.abs(skewMs))} ${skewMs < 0 ? 'behind' : 'ahead of'} the Temporal server`;
  if (Math.abs(skewMs) <= MAX_SKEW_MS) return { name, status: 'ok', message: text };
  return { name, status: 'warning', message: text, mend: 'synchronise the clocks of all machines by NTP' };
}

async function call<T>(session: TemporalSession, rpc: () => Promise<T>): Promise<T> {
  return callTemporal(session.client, rpc);
}

/**
 * How far this machine's clock is ahead of the Temporal server's, in milliseconds, give or take a round trip. No call
 * of Temporal tells its time, but it notes when a task queue was polled last: so a task queue that nobody else knows is
 * polled, and asked about. It leaves nothing behind. `undefined` where the server does not tell.
 */
async function measureClockSkew({ connection, config }: TemporalSession): Promise<number | undefined> {
  const { namespace } = config;
  const taskQueue = { name: `follow-up-doctor-${randomUUID()}` };
  const polledAtMs = Date.now();
  const poll = connection
    .withDeadline(polledAtMs + POLL_TIMEOUT_MS, () =>
      connection.workflowService.pollWorkflowTaskQueue({ namespace, taskQueue, identity: 'follow-up-doctor' }),
    )
    .catch(() => undefined);
  try {
    while (Date.now() < polledAtMs + POLL_TIMEOUT_MS) {
      await sleep(LOOK_INTERVAL_MS);
      const { pollers } = await connection.withDeadline(Date.now() + POLL_TIMEOUT_MS, () =>
        // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the enum is in a package of the SDK's own
        connection.workflowService.describeTaskQueue({ namespace, taskQueue, taskQueueType: 1 }),
      );
      const seen = pollers[0]?.lastAccessTime;
      if (seen) return polledAtMs - (Number(seen.seconds ?? 0) * 1_000 + (seen.nanos ?? 0) / 1e6);
    }
    return undefined;
  } finally {
    await poll;
  }
}
