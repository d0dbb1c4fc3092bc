import { iso } from '../contract/durations.js';
import { setMaxListeners } from 'node:events';
import { ApplicationFailure, Context, log } from '@temporalio/activity';
import { ApplicationFailureCategory } from '@temporalio/common';
import type { AgentJobsClient, GetJobOutcome } from '../agent-jobs/index.js';
import { refusals } from '../contract/budget.js';
import { defined } from '../contract/defined.js';
import { describeGrpcError } from '../temporal/grpc.js';
import type { RecentSends } from '../budget/loop.js';
import { type Answer, type Ask, type BudgetEvent, isAtWork, type Known, slotSchema } from '../contract/protocol.js';
import { grantName, type SendOrder, type SendResult, type SlotAnswer, type SlotOrder } from '../follow-up/port.js';
import {
  comparedFields,
  firstSeen,
  judge,
  knownFields,
  type Seen,
  takeOver,
  type WatchOrder,
  type WatchResult,
} from '../follow-up/watch.js';
import { type Budgets, BudgetStoppedError, type SendsQuery } from './budgets.js';

/** What the activities need from the process that runs them. All durations are in milliseconds. */
export interface ActivityDependencies {
  agentJobs: Pick<AgentJobsClient, 'getJob' | 'sendMessage'>;
  budgets: Budgets;
  /** Total deadline of one POST. */
  sendTimeoutMs: number;
  /** How long after its grant a send has ended, or never starts: see {@link SendOrder}. */
  leaseMs: number;
  /** How long after the lease bytes may still arrive. */
  drainMs: number;
  /** How far the clocks of the server's hosts may be apart. */
  marginMs: number;
  /** The most that any budget may grant in a window. */
  maxLimit: number;
  /** Watches that sleep in this process. The server's timers wait for the others. */
  maxWatches: number;
  /** Aborted when the process is about to end: sleeping watches are handed back. */
  handBack: AbortSignal;
  /** Whether links to pull requests are kept out of search attributes. */
  linksArePrivate: boolean;
  /** Set by others, and a clock that only goes forward. @default those of the process */
  clocks?: { wallMs: () => number; stopwatchMs: () => number };
}

/** How often a watch writes its heartbeat if nothing is new. Each one costs more than a poll. */
const BEAT_MS = 60_000;
/** A watch whose next poll is closer than this does not leave the process for it. */
const SHORT_SLEEP_MS = 1_000;
/** How soon a follow-up asks again that found its budget stopped. */
const STOPPED_RETRY = '1m';

const processClocks = { wallMs: () => Date.now(), stopwatchMs: () => performance.now() };

/** The activities of the workflows `followUp` and `projectBudget`. */
export function createActivities(dependencies: ActivityDependencies) {
  const { agentJobs, budgets, sendTimeoutMs, leaseMs, drainMs, marginMs, maxLimit } = dependencies;
  const { maxWatches, handBack, linksArePrivate, clocks = processClocks } = dependencies;
  let watches = 0;
  // One for each sleeping watch.
  setMaxListeners(0, handBack);

  /** Asks the budget. If that fails, people see the reason. */
  async function ask(projectId: string, request: Ask): Promise<Answer> {
    try {
      const answer = await budgets.ask(projectId, request);
      const { workflowId } = request;
      if (answer.kind !== 'known' || !(await wasNeverUsed(workflowId, answer))) return answer;
      const { grantedTo: runId, sendNumber, grantedAtMs: atMs } = answer;
      await budgets.tell(projectId, { kind: 'settle', workflowId, runId, sendNumber, outcome: 'notSent', atMs });
      return await budgets.ask(projectId, request);
    } catch (error) {
      if (error instanceof BudgetStoppedError) {
        const { message } = error;
        throw ApplicationFailure.create({ type: 'budget-stopped', message, nextRetryDelay: STOPPED_RETRY });
      }
      const message = `The budget of project ${projectId} does not answer: ${describeGrpcError(error)}`;
      throw ApplicationFailure.create({ type: 'budget-silent', message });
    }
  }

  /**
   * A run that was reset while it waited was closed before its grant, and never used it. A budget that does not remember
   * all may have granted it the same send before.
   */
  async function wasNeverUsed(workflowId: string, known: Known): Promise<boolean> {
    const { grantedTo, grantedAtMs, outcome, remembersAll } = known;
    if (grantedTo === '' || outcome !== null || !remembersAll) return false;
    const closedAtMs = await budgets.closedAtMs(workflowId, grantedTo);
    return closedAtMs !== undefined && closedAtMs + marginMs < grantedAtMs;
  }

  return {
    /**
     * Reads the job and, if it takes messages, asks the budget for a slot. If the service refuses the read, the project
     * pauses, and the follow-up waits in line.
     *
     * @throws ApplicationFailure with a `WaitReason` or a `BlockReason` as its type, if the job cannot be read for another
     *   reason or the budget does not answer
     */
    async askForSlot(order: SlotOrder): Promise<SlotAnswer> {
      const { projectId, jobId, whenActive, ask: asked } = order;
      const { workflowId, runId } = ownRun();
      const isTakenOver = order.runId !== runId;
      const isInDoubt = order.isInDoubt || isTakenOver;
      const read = toRead(await agentJobs.getJob({ projectId, jobId }));
      if (read.kind === 'notFound') return read;
      if (read.kind === 'failed' && !read.refused) {
        const { reason: type, message, retryAfterMs: nextRetryDelay } = read;
        if (type === 'not-served') return { kind: 'notServed', message };
        throw ApplicationFailure.create(defined({ type, message, nextRetryDelay }));
      }
      const job = read.kind === 'job' ? read.job : {};
      const isAtRest = whenActive === 'send' || !isAtWork(job);
      const kind = job.status === 'archived' ? 'archived' : isAtRest ? 'asked' : 'atWork';
      if (kind !== 'asked' && !isInDoubt) return { kind, job: knownFields(job) };
      const mayHaveSent = asked.mayHaveSent || isTakenOver;
      const request: Ask = { ...asked, mayHaveSent, workflowId, runId, leaseMs, drainMs, maxLimit };
      const refused = read.kind === 'failed' && read.refused;
      const answer = await ask(projectId, { ...request, ...refused });
      if (kind !== 'asked') {
        const { data: slot } = slotSchema.safeParse(answer);
        if (slot) return { kind, job: knownFields(job), answer: slot };
      }
      const isPrivate = linksArePrivate && ({ linksArePrivate } as const);
      const before = read.kind === 'job' ? { baseline: comparedFields(job) } : { refusal: read.message };
      return { kind: 'asked', ...before, answer, ...isPrivate };
    },

    /**
     * Sends the message, once, whatever happens: only in the run that was granted the send, at the first attempt of an
     * activity that was never reset, and while the grant lasts. Never fails because of the service or the network.
     */
    async sendMessage(order: SendOrder): Promise<SendResult> {
      const { info } = Context.current();
      const startedAtMs = clocks.stopwatchMs();
      const { projectId, jobId, prompt, whenActive, grant } = order;
      const result = (outcome: SendResult['outcome'], message: string) => ({
        grant: grantName(grant),
        outcome,
        message,
      });
      if (ownRun().runId !== grant.runId) return result('foreign', 'the send was granted to another run');
      const isRepeated = info.attempt > 1 || info.currentAttemptScheduledTimestampMs > info.scheduledTimestampMs;
      if (isRepeated) return result('unknown', 'an earlier attempt of this send may have delivered the message');
      // The wall clock may be set, and the stopwatch stands still while the machine sleeps.
      const usableMs = grant.leaseMs - sendTimeoutMs;
      const mayStart = () =>
        clocks.wallMs() < grant.grantedAtMs + usableMs && clocks.stopwatchMs() - startedAtMs < usableMs;
      if (!mayStart()) return result('notSent', 'the slot was granted too long ago');
      let { baseline } = order;
      if (!baseline) {
        const read = toRead(await agentJobs.getJob({ projectId, jobId }));
        const refused = read.kind === 'failed' && read.refused;
        if (read.kind !== 'job') return { ...result('notSent', read.message), ...refused };
        baseline = comparedFields(read.job);
        // If this attempt never reports, the job before the send tells whether the message arrived.
        Context.current().heartbeat({ baseline });
        if (baseline.status === 'archived') return result('notSent', 'the job was archived');
        if (whenActive === 'wait' && isAtWork(baseline)) return result('notSent', 'the job works on another message');
      }
      const sent = await agentJobs.sendMessage({ projectId, jobId, prompt, mayStart });
      const { outcome, statusCode, job } = sent;
      const facts = { projectId, jobId, sendNumber: grant.sendNumber, outcome, statusCode };
      if (outcome === 'sent') log.info('Sent a message', facts);
      else log.warn('A message was not accepted', facts);
      return { ...sent, ...(job && { job: knownFields(job) }), grant: grantName(grant), baseline };
    },

    /** Tells the project's budget something. */
    async tellBudget({ projectId, event }: { projectId: string; event: BudgetEvent }): Promise<void> {
      // A reset run must not give back what its predecessor was granted, and may have used.
      const isForeign = event.runId !== ownRun().runId;
      if (event.kind === 'settle' && event.outcome === 'notSent' && isForeign) return;
      await budgets.tell(projectId, event);
    },

    /**
     * Reads the job until what the order waits for has happened. Sleeps in this process if few watches do; otherwise
     * fails with the time of the next poll, at which the server starts another attempt. What it has seen is in its
     * heartbeats.
     *
     * @throws ApplicationFailure `Later`, benign
     */
    async watchJob(order: WatchOrder): Promise<WatchResult> {
      const context = Context.current();
      const { currentAttemptScheduledTimestampMs } = context.info;
      const heartbeatDetails = context.info.heartbeatDetails as Seen | undefined;
      const startedAtMs = clocks.stopwatchMs();
      // The server's clock, as far as this process knows it: the clocks of workers differ, and may be set.
      const nowMs = () => currentAttemptScheduledTimestampMs + clocks.stopwatchMs() - startedAtMs;
      const seen: Seen = heartbeatDetails ?? order.seen ?? firstSeen(order, nowMs());
      if (order.runId !== ownRun().runId) return { kind: 'foreign', seen };
      if (heartbeatDetails) takeOver(seen, currentAttemptScheduledTimestampMs);
      const waitMs = () => Math.max(0, Date.parse(seen.nextPollAt) - nowMs());
      let [told, toldAtMs] = ['', -Infinity];
      const newsOf = ({ job, lastError, observedActive }: Seen) => JSON.stringify([job, lastError, observedActive]);
      const untoldMs = () => clocks.stopwatchMs() - toldAtMs;
      const tell = () => {
        context.heartbeat(seen);
        [told, toldAtMs] = [newsOf(seen), clocks.stopwatchMs()];
      };
      watches += 1;
      try {
        for (;;) {
          const isLong = waitMs() > SHORT_SLEEP_MS;
          if (handBack.aborted || (isLong && watches > maxWatches)) {
            tell();
            throw later(order.jobId, waitMs());
          }
          if (waitMs() > 0) {
            if (untoldMs() >= BEAT_MS) tell();
            await sleepUnless(handBack, Math.min(waitMs(), BEAT_MS - untoldMs()));
            continue;
          }
          // What an answer shows is as old as its request, also if the process stood still in between.
          const readAtMs = nowMs();
          const read = toRead(await agentJobs.getJob(order));
          const end = judge(order, seen, read, readAtMs);
          const retryAfterMs = read.kind === 'failed' ? (read.retryAfterMs ?? 0) : 0;
          const nextMs = nowMs() + Math.max(jittered(seen.intervalMs), retryAfterMs);
          seen.nextPollAt = iso(Math.min(nextMs, Math.max(nowMs(), order.deadlineMs)));
          if (end) return { ...end, seen };
          if (newsOf(seen) !== told || untoldMs() >= BEAT_MS) tell();
        }
      } finally {
        watches -= 1;
      }
    },

    /** Lists follow-ups of a project that may have been sent: see {@link Budgets.listSends}. */
    async listRecentSends(query: SendsQuery): Promise<RecentSends> {
      // A send may leave until the lease and the drain are over, also after its follow-up was closed.
      const sinceMs = query.sinceMs - leaseMs - drainMs;
      return { ...(await budgets.listSends({ ...query, sinceMs })), leaseMs, drainMs, runId: ownRun().runId };
    },
  };
}

export type Activities = ReturnType<typeof createActivities>;

function ownRun(): { workflowId: string; runId: string } {
  return Context.current().info.workflowExecution ?? { workflowId: '', runId: '' };
}

/** The service's answer, with a reason to wait where it has no job, and with what it says about the whole project. */
function toRead(outcome: GetJobOutcome) {
  if (outcome.kind !== 'failed') return outcome;
  const { reason, message, retryAfterMs } = outcome;
  // A refused read says the same about the service as a refused message. A missing key says nothing of other workers.
  const refusal = reason === 'unauthorized' ? 'credentials' : refusals.find((known) => known === reason);
  const refused = refusal && defined({ refusal, retryAfterMs });
  const own = reason === 'no-key' ? 'credentials' : reason === 'not-served' ? reason : 'service';
  return defined({ kind: 'failed', reason: refusal ?? own, message, retryAfterMs, refused } as const);
}

function later(jobId: string, waitMs: number): ApplicationFailure {
  return ApplicationFailure.create({
    type: 'Later',
    message: `The next poll of job ${jobId} is due later`,
    nextRetryDelay: Math.max(1, Math.ceil(waitMs)),
    category: ApplicationFailureCategory.BENIGN,
  });
}

/** Sleeps, but not beyond an abort or the activity's cancellation. */
async function sleepUnless(signal: AbortSignal, ms: number): Promise<void> {
  const context = Context.current();
  let wake = (): void => undefined;
  const woken = new Promise<void>((resolve) => (wake = resolve));
  signal.addEventListener('abort', wake);
  try {
    await Promise.race([context.sleep(ms), woken]);
  } finally {
    signal.removeEventListener('abort', wake);
  }
}

/** Varies a wait by up to a tenth, so that watches that began together drift apart. */
const jittered = (ms: number): number => ms * (0.9 + 0.2 * Math.random());
