import {
  ActivityCancellationType,
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  condition,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  sleep,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.js';
import { type FollowUpSettings, SearchAttribute } from '../contract/index.js';
import type { NothingNewDetails } from '../contract/protocol.js';
import { describeProgress } from '../follow-up/details.js';
import type { FollowUpPort, Steps, WatchEnd, WatchOrder } from '../follow-up/port.js';
import { mayReplaceAnotherRun } from './this-run.js';

/** A get-job call ends within 7 s, so that its local activity costs one event. */
const GET_JOB_TIMEOUT = '10s';

const { getJob } = proxyLocalActivities<Activities>({
  startToCloseTimeout: GET_JOB_TIMEOUT,
  // The flow is the retry.
  retry: { maximumAttempts: 1 },
});

/** Retries until the budget hears it: a budget that does not hear of an end keeps the job's turn. */
const { tellBudget } = proxyLocalActivities<Activities>({
  startToCloseTimeout: '20s',
  retry: { initialInterval: '1s', maximumInterval: '60s' },
});

/** Added to the time at which a watch ends by itself. */
const WATCH_SLACK_MS = 30_000;

const { watchJob } = proxyActivities<Activities>({ startToCloseTimeout: GET_JOB_TIMEOUT });

/** Without a limit: each invocation asks the budget with its own token, and only one of them may send. */
const { sendFollowUp } = proxyActivities<Activities>({
  startToCloseTimeout: '75s',
  retry: { initialInterval: '1s', maximumInterval: '60s' },
});

export function createFollowUpPort({ projectId, jobId }: FollowUpSettings): FollowUpPort {
  let watch: OpenWatch | undefined;
  return {
    workflowId: workflowInfo().workflowId,
    replacesRun: mayReplaceAnotherRun(),
    nowMs: () => Date.now(),
    random: () => Math.random(),
    continueAsNewIsDue: () => workflowInfo().continueAsNewSuggested,
    // Issues the same commands as the SDK's `condition` with a timeout, but makes fewer promises: the worker records a
    // stack for each.
    sleep: (ms, summary, until) => {
      const scope = new CancellationScope({ cancellable: true });
      let hasFired = false;
      const fired = scope.run(() => sleep(ms, { summary }));
      fired.then(
        () => {
          hasFired = true;
        },
        // Cancelled below.
        () => undefined,
      );
      return awaited(
        condition(() => hasFired || until()).then(() => {
          if (!hasFired) scope.cancel();
        }),
      );
    },
    getJob: (summary, beforeSend) =>
      awaited(
        getJob.executeWithOptions({ summary }, [{ projectId, jobId, ...(beforeSend && { beforeSend }) }]).catch(() => ({
          kind: 'failed' as const,
          reason: 'timeout' as const,
          message: 'the worker could not read the job in time',
        })),
      ),
    startWatch: (order) => {
      watch = startWatch(order);
    },
    awaitWatch: (until) => awaited(condition(() => watch?.end !== undefined || until()).then(() => watch?.end)),
    stopWatch: () => awaited(stopWatch(watch)),
    send: (input, { startToCloseMs, summary }) =>
      awaited(sendFollowUp.executeWithOptions({ startToCloseTimeout: startToCloseMs, summary }, [input])),
    tell: (word) =>
      awaited(tellBudget.executeWithOptions({ summary: `tell the budget: ${word.kind}` }, [{ projectId, ...word }])),
    show: (progress, changed) => {
      const pairs = Object.entries(changed).map(([name, value]) => ({
        key: SearchAttribute[name as keyof typeof changed],
        value,
      }));
      if (pairs.length > 0) upsertSearchAttributes(pairs);
      setCurrentDetails(describeProgress(progress, workflowInfo().workflowId, Date.now()));
    },
  };
}

interface OpenWatch {
  scope: CancellationScope;
  end?: WatchEnd;
}

/** Each attempt is one look, and the server waits between attempts: see `watchJob`. */
function startWatch(order: WatchOrder): OpenWatch {
  const { jobId, poll, intervalMs, untilMs } = order;
  const watch: OpenWatch = { scope: new CancellationScope({ cancellable: true }) };
  const looking = watch.scope.run(() =>
    watchJob.executeWithOptions(
      {
        startToCloseTimeout: GET_JOB_TIMEOUT,
        // The watch ends by itself at `untilMs`; this limit is for a watch without a worker.
        scheduleToCloseTimeout: Math.max(0, untilMs - Date.now()) + WATCH_SLACK_MS,
        // For attempts whose worker died. All others say themselves when to look again.
        retry: {
          initialInterval: intervalMs,
          maximumInterval: poll.maxIntervalMs,
          backoffCoefficient: poll.backoffCoefficient,
        },
        cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary: `get-job: watch ${jobId}`,
      },
      [order],
    ),
  );
  looking.then(
    (result) => {
      watch.end = { kind: 'seen', ...result };
    },
    (error: unknown) => {
      watch.end = { kind: 'stopped', looks: looksOf(error) };
    },
  );
  return watch;
}

async function stopWatch(watch: OpenWatch | undefined): Promise<WatchEnd> {
  watch?.scope.cancel();
  await condition(() => watch?.end !== undefined);
  return watch?.end ?? { kind: 'stopped', looks: 0 };
}

/** The number of looks, as far as the latest failure tells. */
function looksOf(error: unknown): number {
  let cause = error instanceof ActivityFailure ? error.cause : undefined;
  while (cause instanceof Error && !(cause instanceof ApplicationFailure)) cause = cause.cause as Error | undefined;
  const [details] = (cause instanceof ApplicationFailure ? cause.details : undefined) ?? [];
  const { looks } = (details ?? {}) as Partial<NothingNewDetails>;
  return looks ?? 0;
}

/** Waits for a promise. A rejection is thrown into the flow, which fails the workflow task. */
function* awaited<T>(promise: Promise<T>): Steps<T> {
  let settled: { ok: true; value: T } | { ok: false; error: unknown } | undefined;
  yield (resume) => {
    promise.then(
      (value) => {
        settled = { ok: true, value };
        resume();
      },
      (error: unknown) => {
        settled = { ok: false, error };
        resume();
      },
    );
  };
  if (!settled) throw new Error('resumed before its promise was settled');
  if (!settled.ok) throw settled.error;
  return settled.value;
}

export async function drive<T>(steps: Steps<T>): Promise<T> {
  for (;;) {
    const next = steps.next();
    if (next.done) return next.value;
    await new Promise<void>(next.value);
  }
}
