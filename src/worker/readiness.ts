import { hostname } from 'node:os';
import type { ConnectionLike } from '@temporalio/client';
import type { Logger } from 'pino';
import type { WatchedApiKeys } from '../agent-jobs/index.js';
import { codeOf } from '../common/index.js';
import { ConfigError, readWorkerIdentity } from '../config/index.js';
import { describeGrpcError, GrpcStatus, grpcStatusOf, pause } from '../temporal/grpc.js';
import type { ServerClock } from '../temporal/server-clock.js';
import { polledQueues, type Poller, type QueueType, readTaskQueue, stillPolls } from '../temporal/task-queues.js';
import type { Readiness } from './status-server.js';

/** How long a result is valid, so that many probes cost one check. */
const CHECK_EVERY_MS = 5_000;

/** Below the usual timeouts of probes. */
const TEMPORAL_DEADLINE_MS = 2_000;

/** Creates a check whether a ready worker still reaches Temporal and its API keys. */
export function watchReadiness(
  connection: ConnectionLike,
  keys: WatchedApiKeys,
  options: { namespace: string; taskQueue: string; serverClock: ServerClock; checkEveryMs?: number },
): () => Promise<Readiness> {
  const { namespace, taskQueue, serverClock, checkEveryMs = CHECK_EVERY_MS } = options;
  let latest: Promise<Readiness> | undefined;
  let goodUntilMs = 0;

  async function check(): Promise<Readiness> {
    const notes = ['ready'];
    try {
      const { setCurrent } = await readQueue(connection, namespace, taskQueue, 'workflow');
      if (setCurrent !== undefined) notes.push(`it gets no tasks until its version is the current one: ${setCurrent}`);
    } catch (error) {
      if (grpcStatusOf(error) !== GrpcStatus.UNIMPLEMENTED) {
        return { ready: false, reason: `Temporal cannot be reached: ${describeGrpcError(error)}` };
      }
    }
    const problem = await keys.problem();
    if (problem !== undefined) return { ready: false, reason: `a file of API keys cannot be used: ${problem}` };
    const clockProblem = serverClock.problem();
    if (clockProblem !== undefined) notes.push(clockProblem);
    return { ready: true, reason: notes.join('; ') };
  }

  return () => {
    if (latest === undefined || performance.now() >= goodUntilMs) {
      goodUntilMs = Infinity;
      latest = check().finally(() => (goodUntilMs = performance.now() + checkEveryMs));
    }
    return latest;
  };
}

function readQueue(connection: ConnectionLike, namespace: string, name: string, type: QueueType) {
  return connection.withDeadline(Date.now() + TEMPORAL_DEADLINE_MS, () =>
    readTaskQueue(connection, namespace, name, type),
  );
}

/**
 * Checks that no other worker of the task queue uses another address of the service: follow-ups would go to both.
 *
 * @throws ConfigError that names both workers
 */
export async function refuseOtherAddress(
  connection: ConnectionLike,
  { namespace, taskQueue, identity, logger }: Omit<WaitOptions, 'signal' | 'serverClock'>,
): Promise<void> {
  const own = readWorkerIdentity(identity);
  let pollers: Poller[];
  try {
    ({ pollers } = await readQueue(connection, namespace, taskQueue, 'activity'));
  } catch (error) {
    logger.debug({ reason: describeGrpcError(error) }, 'It is not known whether other workers have the same settings');
    return;
  }
  const workers = pollers
    .filter((poller) => stillPolls(poller))
    .flatMap((poller) => readWorkerIdentity(poller.identity) ?? []);
  const other = workers.find((worker) => worker.address !== own?.address && !hasEnded(worker));
  if (!own || !other) return;
  const rule = `must be the same for all workers of task queue ${taskQueue}`;
  const next =
    'give both the same one, or another FOLLOW_UP_TASK_QUEUE; Temporal lists a worker until 90 s after its end';
  const message = `${rule}: worker ${own.name} and worker ${other.name} use different ones; ${next}`;
  throw new ConfigError([{ name: 'AGENT_JOBS_BASE_URL', message }]);
}

/** Whether a worker of this machine no longer runs. Temporal still lists it. */
function hasEnded({ pid, host }: { pid: number; host: string }): boolean {
  if (host !== hostname()) return false;
  if (pid === process.pid) return true;
  try {
    return !process.kill(pid, 0);
  } catch (error) {
    return codeOf(error) === 'ESRCH';
  }
}

const INTERVAL_MS = 100;

interface WaitOptions {
  namespace: string;
  taskQueue: string;
  identity: string;
  serverClock: ServerClock;
  logger: Logger;
  signal: AbortSignal;
}

/**
 * Waits until the server lists this worker as a poller of its task queues, because the SDK does not report whether its
 * polls arrive. A server without that feature counts as listing it.
 */
export async function waitUntilPolled(
  connection: ConnectionLike,
  { namespace, taskQueue, identity, serverClock, logger, signal }: WaitOptions,
): Promise<void> {
  const startedAtMs = Date.now();
  const isPolled = async (name: string, type: QueueType): Promise<boolean> => {
    try {
      const { pollers } = await readQueue(connection, namespace, name, type);
      const own = pollers.find((poller) => poller.identity === identity);
      if (own?.polledAtMs !== undefined) serverClock.observe(startedAtMs, own.polledAtMs, Date.now());
      return own !== undefined;
    } catch (error) {
      if (grpcStatusOf(error) === GrpcStatus.UNIMPLEMENTED) return true;
      logger.debug(
        { queue: name, reason: describeGrpcError(error) },
        'It is not known yet whether the queue is polled',
      );
      return false;
    }
  };
  for (const [name, type] of polledQueues(taskQueue)) {
    while (!(await isPolled(name, type))) await pause(INTERVAL_MS, signal);
  }
}
