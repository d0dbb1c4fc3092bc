import { setMaxListeners } from 'node:events';
import { ApplicationFailure, Context, log } from '@temporalio/activity';
import { ApplicationFailureCategory } from '@temporalio/common';
import type { AgentJobsClient, GetJobOutcome } from '../agent-jobs/index.js';
import type { RecentSends } from '../budget/loop.js';
import { defined, iso } from '../common/index.js';
import type { Delivered } from '../contract/index.js';
import {
  comparedFields,
  firstObservation,
  judge,
  knownFields,
  type Observation,
  resumeObservation,
  type WatchRequest,
  type WatchResult,
} from '../follow-up/judge.js';
import {
  grantName,
  type ReadRequest,
  type ReadResult,
  reasonAgainst,
  type SendRequest,
  type SendResult,
  type SlotRequest,
  type SlotResult,
} from '../follow-up/port.js';
import {
  type Ask,
  type AskReply,
  type EarlierSend,
  type FollowUpReport,
  refusalOf,
  slotReplySchema,
} from '../protocol/index.js';
import { describeGrpcError } from '../temporal/grpc.js';
import { type Budgets, BudgetStoppedError, type SendsQuery } from './budgets.js';

/** Dependencies of the activities. All durations are in milliseconds. */
export interface ActivityDependencies {
  agentJobs: Pick<AgentJobsClient, 'getJob' | 'sendMessage'>;
  budgets: Budgets;
  /** Total deadline of one POST. */
  sendTimeoutMs: number;
  /** Time from its grant within which a send ends or never starts: see {@link SendRequest}. */
  leaseMs: number;
  /** How long after the lease bytes may still arrive at the service. */
  drainMs: number;
  /** Largest difference between the clocks of Temporal's hosts, and between theirs and the service's. */
  marginMs: number;
  /** Upper bound of every budget's limit. */
  maxLimit: number;
  /** Most watches that sleep in this process. The others wait on timers of the server. */
  maxWatches: number;
  /** Aborted when the process is about to end: sleeping watches go back to the server. */
  handBack: AbortSignal;
  /** Whether links to pull requests are kept out of search attributes. */
  linksArePrivate: boolean;
  /** The wall clock, which can be set, and a monotonic clock. @default those of the process */
  clocks?: { wallMs: () => number; stopwatchMs: () => number };
}

/** Interval of heartbeats without news. A heartbeat costs more than a poll. */
const BEAT_MS = 60_000;
/** A watch sleeps in the process for a shorter wait than this, even above the limit. */
const SHORT_SLEEP_MS = 1_000;
/** Interval at which a follow-up asks a stopped budget again. */
const STOPPED_RETRY = '1m';

const processClocks = { wallMs: () => Date.now(), stopwatchMs: () => performance.now() };

/** The activities of the workflows `followUp` and `projectBudget`. */
export function createActivities(dependencies: ActivityDependencies) {
  const { agentJobs, budgets, sendTimeoutMs, leaseMs, drainMs, marginMs, maxLimit } = dependencies;
  const { maxWatches, handBack, linksArePrivate, clocks = processClocks } = dependencies;
  let watches = 0;
  // One for each sleeping watch.
  setMaxListeners(0, handBack);
  const isPrivate = linksArePrivate && ({ linksArePrivate } as const);

  /** Asks the budget. The reason for a failure shows in the Temporal UI. */
  async function ask(projectId: string, request: Ask): Promise<AskReply> {
    try {
      const reply = await budgets.ask(projectId, request);
      const { workflowId } = request;
      if (reply.kind !== 'earlierSend' || !(await wasNeverUsed(workflowId, reply))) return reply;
      const { grantedTo: runId, sendNumber, grantedAtMs: atMs } = reply;
      await budgets.report(projectId, { kind: 'outcome', workflowId, runId, sendNumber, outcome: 'notSent', atMs });
      return await budgets.ask(projectId, request);
    } catch (error) {
      if (error instanceof BudgetStoppedError) {
        const { message } = error;
        throw ApplicationFailure.create({ type: 'budget-stopped', message, nextRetryDelay: STOPPED_RETRY });
      }
      const message = `The budget of project ${projectId} does not reply: ${describeGrpcError(error)}`;
      throw ApplicationFailure.create({ type: 'budget-silent', message });
    }
  }

  /**
   * Whether a run had closed before it was granted the send, so that it cannot have used the grant. Only a budget with a
   * complete memory can rule out an earlier grant of the same send.
   */
  async function wasNeverUsed(workflowId: string, earlier: EarlierSend): Promise<boolean> {
    const { grantedTo, grantedAtMs, outcome } = earlier;
    if (grantedTo === '' || outcome !== null) return false;
    const closedAtMs = await budgets.closedAtMs(workflowId, grantedTo);
    return closedAtMs !== undefined && closedAtMs + marginMs < grantedAtMs;
  }

  return {
    /**
     * Reads the job and asks the budget for a slot, and for its place among the follow-ups to the job. If the service
     * refuses the read, the follow-up waits in line.
     *
     * @throws ApplicationFailure with a `WaitReason` or a `BlockReason` as its type, if the job cannot be read for
     *   another reason or the budget does not reply
     */
    async askForSlot(request: SlotRequest): Promise<SlotResult> {
      const { projectId, jobId, whenActive } = request;
      const { workflowId, runId } = ownRun();
      const isTakenOver = request.runId !== runId;
      const isInDoubt = request.isInDoubt || isTakenOver;
      const read = toRead(await agentJobs.getJob({ projectId, jobId }));
      if (read.kind === 'notFound') return read;
      if (read.kind === 'failed' && !read.refused) {
        const { reason: type, message, retryAfterMs: nextRetryDelay } = read;
        if (type === 'not-served') return { kind: 'notServed', message };
        throw ApplicationFailure.create(defined({ type, message, nextRetryDelay }));
      }
      const job = read.kind === 'job' ? read.job : undefined;
      const isArchived = job?.status === 'archived';
      if (isArchived && !isInDoubt) return { kind: 'archived', job: knownFields(job) };
      const isBusy = job !== undefined && reasonAgainst(job, whenActive) !== undefined;
      const jobIs = job && whenActive === 'wait' && ({ jobIs: isBusy ? 'at-work' : 'at-rest' } as const);
      const mayHaveSent = request.ask.mayHaveSent || isTakenOver;
      const own = { workflowId, runId, leaseMs, drainMs, maxLimit };
      const refused = read.kind === 'failed' && read.refused;
      const reply = await ask(projectId, { ...request.ask, mayHaveSent, ...own, ...jobIs, ...refused });
      const slot = isArchived ? slotReplySchema.safeParse(reply).data : undefined;
      if (isArchived && slot) return { kind: 'archived', job: knownFields(job), reply: slot };
      const found = isBusy ? { busyJob: knownFields(job) } : job && { jobBefore: comparedFields(job) };
      const refusal = read.kind === 'failed' ? read.message : undefined;
      return { kind: 'asked', ...found, ...defined({ refusal }), reply, ...isPrivate };
    },

    /** Asks the budget whether another run has delivered the message. */
    async wasDelivered({ projectId, messageTag }: { projectId: string; messageTag: string }): Promise<Delivered> {
      return budgets.wasDelivered(projectId, { ...ownRun(), messageTag });
    },

    /** Reads the job before another send is scheduled. */
    async readJob({ runId, ...job }: ReadRequest): Promise<ReadResult> {
      if (ownRun().runId !== runId) return { kind: 'foreign' };
      const read = toRead(await agentJobs.getJob(job));
      return read.kind === 'job' ? { ...read, job: comparedFields(read.job) } : read;
    },

    /**
     * Sends the message at most once: only in the run that has the grant, at the first attempt of an activity that was
     * never reset, and while the grant lasts. Never fails because of the service or the network.
     */
    async sendMessage(request: SendRequest): Promise<SendResult> {
      const { info } = Context.current();
      const startedAtMs = clocks.stopwatchMs();
      const { projectId, jobId, prompt, whenActive, grant } = request;
      const result = (outcome: SendResult['outcome'], message: string) => ({
        grant: grantName(grant),
        outcome,
        message,
      });
      if (ownRun().runId !== grant.runId) return result('foreign', 'the send was granted to another run');
      const isRepeated = info.attempt > 1 || info.currentAttemptScheduledTimestampMs > info.scheduledTimestampMs;
      if (isRepeated) return result('unknown', 'an earlier attempt of this send may have delivered the message');
      // The wall clock may be set, and the monotonic clock stops while the machine sleeps.
      const usableMs = grant.leaseMs - sendTimeoutMs;
      const mayStart = () =>
        clocks.wallMs() < grant.grantedAtMs + usableMs && clocks.stopwatchMs() - startedAtMs < usableMs;
      if (!mayStart()) return result('notSent', 'the grant of the slot has expired');
      let { jobBefore } = request;
      if (!jobBefore) {
        const read = toRead(await agentJobs.getJob({ projectId, jobId }));
        const refused = read.kind === 'failed' && read.refused;
        if (read.kind !== 'job') return { ...result('notSent', read.message), ...refused };
        jobBefore = comparedFields(read.job);
        // If this attempt never reports, the job's state before the send shows whether the message arrived.
        Context.current().heartbeat({ jobBefore });
        const reason = reasonAgainst(jobBefore, whenActive);
        if (reason !== undefined) return result('notSent', reason);
      }
      const sent = await agentJobs.sendMessage({ projectId, jobId, prompt, mayStart });
      const { outcome, statusCode, job } = sent;
      const facts = { projectId, jobId, sendNumber: grant.sendNumber, outcome, statusCode };
      if (outcome === 'sent') log.info('Sent a message', facts);
      else log.warn('A message was not accepted', facts);
      return { ...sent, ...(job && { job: knownFields(job) }), grant: grantName(grant), jobBefore, ...isPrivate };
    },

    /** Signals an event to the project's budget. */
    async reportToBudget({ projectId, report }: { projectId: string; report: FollowUpReport }): Promise<void> {
      // A reset run must not return its predecessor's grant, which may have been used.
      const isForeign = report.runId !== ownRun().runId;
      if (report.kind === 'outcome' && report.outcome === 'notSent' && isForeign) return;
      await budgets.report(projectId, report);
    },

    /**
     * Polls the job until the request's goal is reached. Sleeps in this process if few watches do; otherwise it fails
     * with the time of the next poll, when the server starts another attempt. Its heartbeats hold what it has seen.
     *
     * @throws ApplicationFailure `Later`, benign
     */
    async watchJob(request: WatchRequest): Promise<WatchResult> {
      const context = Context.current();
      const { currentAttemptScheduledTimestampMs } = context.info;
      const heartbeatDetails = context.info.heartbeatDetails as Observation | undefined;
      const startedAtMs = clocks.stopwatchMs();
      // The server's clock, measured from the attempt's start: the clocks of workers differ and may be set.
      const nowMs = () => currentAttemptScheduledTimestampMs + clocks.stopwatchMs() - startedAtMs;
      const observation: Observation = heartbeatDetails ?? request.observation ?? firstObservation(request, nowMs());
      if (request.runId !== ownRun().runId) return { kind: 'foreign', observation };
      if (heartbeatDetails) resumeObservation(observation, currentAttemptScheduledTimestampMs);
      const waitMs = () => Math.max(0, Date.parse(observation.nextPollAt) - nowMs());
      let [lastBeat, lastBeatAtMs] = ['', -Infinity];
      const summaryOf = ({ job, lastError, observedActive }: Observation) =>
        JSON.stringify([job, lastError, observedActive]);
      const sinceBeatMs = () => clocks.stopwatchMs() - lastBeatAtMs;
      const beat = () => {
        context.heartbeat(observation);
        [lastBeat, lastBeatAtMs] = [summaryOf(observation), clocks.stopwatchMs()];
      };
      watches += 1;
      try {
        for (;;) {
          const isLong = waitMs() > SHORT_SLEEP_MS;
          if (handBack.aborted || (isLong && watches > maxWatches)) {
            beat();
            throw later(request.jobId, waitMs());
          }
          if (waitMs() > 0) {
            if (sinceBeatMs() >= BEAT_MS) beat();
            await sleepUnless(handBack, Math.min(waitMs(), BEAT_MS - sinceBeatMs()));
            continue;
          }
          // A response is as old as its request, even if the process stood still in between.
          const readAtMs = nowMs();
          const read = toRead(await agentJobs.getJob(request));
          const end = judge(request, observation, read, readAtMs);
          const retryAfterMs = read.kind === 'failed' ? (read.retryAfterMs ?? 0) : 0;
          const nextMs = nowMs() + Math.max(jittered(observation.intervalMs), retryAfterMs);
          observation.nextPollAt = iso(Math.min(nextMs, Math.max(nowMs(), request.deadlineMs)));
          if (end) return { ...end, observation };
          if (summaryOf(observation) !== lastBeat || sinceBeatMs() >= BEAT_MS) beat();
        }
      } finally {
        watches -= 1;
      }
    },

    /** Lists follow-ups of a project that may have sent: see {@link Budgets.listSends}. */
    async listRecentSends(query: SendsQuery): Promise<RecentSends> {
      // A send may still leave during the lease and the drain, even after its follow-up was closed.
      const sinceMs = query.sinceMs - leaseMs - drainMs;
      return { ...(await budgets.listSends({ ...query, sinceMs })), leaseMs, drainMs, runId: ownRun().runId };
    },
  };
}

export type Activities = ReturnType<typeof createActivities>;

function ownRun(): { workflowId: string; runId: string } {
  return Context.current().info.workflowExecution ?? { workflowId: '', runId: '' };
}

/** The service's response. A failure has a reason to wait, and `refused` if the budget has to know. */
function toRead(outcome: GetJobOutcome) {
  if (outcome.kind !== 'failed') return outcome;
  const { reason, message, statusCode, retryAfterMs } = outcome;
  // A refused read means the same as a refused message. A missing key concerns only this worker.
  const refusal = refusalOf(reason);
  const refused = refusal && defined({ refusal, statusCode, retryAfterMs });
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

/** Varies a wait by up to 10 %, so that watches that started together drift apart. */
const jittered = (ms: number): number => ms * (0.9 + 0.2 * Math.random());
