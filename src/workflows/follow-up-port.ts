import {
  ActivityCancellationType,
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  condition,
  isCancellation,
  metricMeter,
  patched,
  proxyActivities,
  proxyLocalActivities,
  sleep,
  TimeoutFailure,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.js';
import type { Delivered, FollowUpSettings } from '../contract/index.js';
import { readWatchResult, type WatchRequest, type WatchResult } from '../follow-up/judge.js';
import {
  type FollowUpPort,
  grantName,
  type ReadRequest,
  type ReadResult,
  readSendResult,
  readSlotResult,
  type SendRequest,
  type SendResult,
  type SlotRequest,
  type SlotResult,
  type Stoppable,
  type Trouble,
} from '../follow-up/port.js';
import { createDisplay } from './follow-up-display.js';
import { isFirstRun } from './this-run.js';

/** Reading the job takes at most 7 s, and a call to the budget 5 s. As a local activity, both cost one event. */
const localOnce = proxyLocalActivities<Activities>({ startToCloseTimeout: '15s', retry: { maximumAttempts: 1 } });

/** Repeats until the budget has received the report, or does not run: a budget that misses an end keeps the job's turn. */
const { reportToBudget } = proxyLocalActivities<Activities>({
  startToCloseTimeout: '10s',
  retry: { initialInterval: '1s', maximumInterval: '60s' },
});

/** The shortest timeout of a send: enough for a send with an expired grant to report that. */
const SHORTEST_SEND_MS = 10_000;
/** Time beyond the request's deadline for a watch that no worker has picked up yet. */
const WATCH_SLACK_MS = 120_000;
/**
 * With the interval of retries, another worker takes over a dead worker's watch within 90 s. A sleeping watch sends a
 * heartbeat every 60 s.
 */
const HEARTBEAT_TIMEOUT_MS = 75_000;
const LONGEST_TAKEOVER_MS = 15_000;

/** Assumed maximum interval of a workflow's retry policy. */
const LONGEST_RETRY_MS = 3_600_000;

/** Temporal ends a run whose history has 50 MB or 51,200 events. The rest is for what is under way, and for the end. */
const MAX_BYTES = 40_000_000;
const MAX_EVENTS = 40_000;

export function createPort({ projectId, poll }: FollowUpSettings): FollowUpPort {
  const { workflowId, runId, attempt, startTime, runTimeoutMs = 0 } = workflowInfo();
  const runStartedAtMs = startTime.getTime();
  // With a retry policy, each run starts after the previous one has timed out.
  const firstStartedAtMs = runStartedAtMs - (attempt - 1) * (runTimeoutMs + LONGEST_RETRY_MS);
  /** Links are private until a worker says otherwise. */
  let arePrivate = true;
  const show = createDisplay(workflowId, () => arePrivate);
  return {
    startedAtMs: firstStartedAtMs,
    runId,
    mayHaveSent: !isFirstRun(),
    nowMs: () => Date.now(),
    random: () => Math.random(),
    condition: async (isOver, ms) => {
      if (ms !== undefined) return condition(isOver, ms, { summary: 'until it tries again' });
      await condition(isOver);
      return true;
    },
    // Signal handlers call this, too: a cancel must not end their sleep.
    nextTask: () => CancellationScope.nonCancellable(() => sleep(1, { summary: 'until this is in the history' })),
    askForSlot: (request, untilMs, onTrouble) => {
      const asking = askForSlot(request, untilMs, onTrouble);
      const result = asking.result.then((asked) => {
        if (asked?.kind === 'asked') arePrivate = asked.linksArePrivate === true;
        return asked;
      });
      return { ...asking, result };
    },
    patched,
    isHistoryFull: () => workflowInfo().historySize > MAX_BYTES || workflowInfo().historyLength > MAX_EVENTS,
    wasDelivered: (messageTag) => wasDelivered(projectId, messageTag),
    readJob,
    sendMessage: async (request) => {
      const sent = await sendMessage(request);
      if (sent.outcome === 'sent') {
        recordSend(Date.now() - runStartedAtMs);
        arePrivate = sent.linksArePrivate === true;
      }
      return sent;
    },
    reportToBudget: (report) => reportToBudget({ projectId, report: { runId, ...report, workflowId } }),
    watchJob: (request) => watchJob(request, poll.initialIntervalMs),
    show,
  };
}

/** Whether another run has delivered the message; `undefined` if the budget does not reply. */
export function wasDelivered(projectId: string, messageTag: string): Promise<Delivered | undefined> {
  const options = { summary: 'ask about earlier sends' };
  return localOnce.wasDelivered.executeWithOptions(options, [{ projectId, messageTag }]).catch(() => undefined);
}

/**
 * Starts with a local activity. If it fails, the server repeats a regular one, whose error people can see. Only the
 * regular one is cancelled: the SDK fails the workflow task if a local activity is cancelled just as its result arrives
 * (sdk-rust#705), and a local activity takes at most 15 s.
 */
function askForSlot(
  request: SlotRequest,
  untilMs: number,
  onTrouble: (trouble: Trouble) => void,
): Stoppable<SlotResult> {
  const scope = new CancellationScope({ cancellable: true });
  const { jobId } = request;
  const ask = async () => {
    try {
      return await localOnce.askForSlot.executeWithOptions({ summary: `ask for a slot for ${jobId}` }, [request]);
    } catch (error) {
      if (scope.consideredCancelled || isCancellation(error)) throw error;
      onTrouble(troubleOf(error));
    }
    const retried = proxyActivities<Activities>({
      startToCloseTimeout: '20s',
      scheduleToCloseTimeout: Math.max(1, untilMs - Date.now()),
      retry: { initialInterval: '2s', maximumInterval: '5m' },
      cancellationType: ActivityCancellationType.TRY_CANCEL,
    });
    const summary = `ask again for a slot for ${jobId}`;
    return scope.run(() => retried.askForSlot.executeWithOptions({ summary }, [request]));
  };
  return { result: ask().then(readSlotResult, () => undefined), stop: () => scope.cancel() };
}

function troubleOf(error: unknown): Trouble {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure) return { reason: cause.type ?? 'service', message: cause.message };
  // A read ends before the activity's timeout, so the budget is the cause: asks of one project wait for each other.
  return { reason: 'budget-silent', message: 'the budget did not reply in time' };
}

async function readJob(request: ReadRequest): Promise<ReadResult> {
  try {
    return await localOnce.readJob.executeWithOptions({ summary: `read ${request.jobId} before the send` }, [request]);
  } catch {
    return { kind: 'failed', message: 'the job was not read in time' };
  }
}

/** Only one attempt: a send without a report may have delivered the message. */
async function sendMessage(request: SendRequest): Promise<SendResult> {
  const { grant, jobId } = request;
  const timeoutMs = Math.max(grant.leaseMs, SHORTEST_SEND_MS);
  const { sendMessage: send } = proxyActivities<Activities>({
    startToCloseTimeout: timeoutMs,
    heartbeatTimeout: timeoutMs,
    retry: { maximumAttempts: 1 },
    // Above all watches.
    priority: { priorityKey: 1 },
  });
  try {
    const summary = `send message ${grant.sendNumber} to ${jobId}`;
    return readSendResult(await send.executeWithOptions({ summary }, [request]), request);
  } catch (error) {
    const cause = error instanceof ActivityFailure ? error.cause : error;
    const details: unknown = cause instanceof TimeoutFailure ? cause.lastHeartbeatDetails : undefined;
    const { jobBefore } = (details ?? {}) as Partial<SendResult>;
    const message =
      cause instanceof TimeoutFailure ? 'the worker did not report the outcome of the send' : String(cause);
    return { grant: grantName(grant), outcome: 'unknown', message, ...(jobBefore && { jobBefore }) };
  }
}

function watchJob(request: WatchRequest, intervalMs: number): Stoppable<WatchResult> {
  const activity = proxyActivities<Activities>({
    scheduleToCloseTimeout: Math.max(1, request.deadlineMs - Date.now()) + WATCH_SLACK_MS,
    heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
    retry: { initialInterval: Math.min(intervalMs, LONGEST_TAKEOVER_MS), maximumInterval: LONGEST_TAKEOVER_MS },
    cancellationType: ActivityCancellationType.TRY_CANCEL,
  });
  const scope = new CancellationScope({ cancellable: true });
  const summary = `watch ${request.jobId} until ${request.until}`;
  const watching = scope.run(() => activity.watchJob.executeWithOptions({ summary }, [request]));
  return { result: watching.then(readWatchResult, () => undefined), stop: () => scope.cancel() };
}

function recordSend(startToSendMs: number): void {
  const help = 'Time from the start of a follow-up to a message that the service accepted';
  const times = metricMeter.createHistogram('follow_up_start_to_send', 'float', 'seconds', help);
  times.record(Math.max(0, startToSendMs) / 1_000);
}
