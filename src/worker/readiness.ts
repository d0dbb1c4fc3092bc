import type { Connection } from '@temporalio/client';
import type { WatchedApiKeys } from '../agent-jobs/index.js';
import { describeGrpcError, GrpcStatus, grpcStatusOf } from '../temporal/grpc.js';
import type { Readiness } from './status-server.js';

/** How long an answer is good: probes, however many, cost one look at Temporal and at the files in that time. */
const CHECK_EVERY_MS = 5_000;

/** Deadline of the look at Temporal. Below the usual timeouts of those who probe. */
const TEMPORAL_DEADLINE_MS = 2_000;

/**
 * Whether a worker that has become ready still reaches Temporal and its API keys.
 *
 * @param options.checkEveryMs how long an answer is good. @default 5_000
 */
export function watchReadiness(
  connection: Connection,
  keys: WatchedApiKeys,
  {
    namespace,
    taskQueue,
    checkEveryMs = CHECK_EVERY_MS,
  }: { namespace: string; taskQueue: string; checkEveryMs?: number },
): () => Promise<Readiness> {
  let latest: Promise<Readiness> | undefined;
  let goodUntilMs = 0;

  async function check(): Promise<Readiness> {
    try {
      await connection.withDeadline(Date.now() + TEMPORAL_DEADLINE_MS, () =>
        connection.workflowService.describeTaskQueue({ namespace, taskQueue: { name: taskQueue } }),
      );
    } catch (error) {
      if (grpcStatusOf(error) !== GrpcStatus.unimplemented) {
        return { ready: false, reason: `Temporal cannot be reached: ${describeGrpcError(error)}` };
      }
    }
    const problem = await keys.problem();
    if (problem !== undefined) return { ready: false, reason: `a file of API keys cannot be used: ${problem}` };
    return { ready: true, reason: 'ready' };
  }

  return () => {
    if (latest === undefined || performance.now() >= goodUntilMs) {
      goodUntilMs = Infinity;
      latest = check().finally(() => {
        goodUntilMs = performance.now() + checkEveryMs;
      });
    }
    return latest;
  };
}
