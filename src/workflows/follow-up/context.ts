import {
  ApplicationFailure,
  CancellationScope,
  condition,
  continueAsNew,
  getExternalWorkflowHandle,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  upsertSearchAttributes,
  workflowInfo,
  type CancelledFailure,
} from '@temporalio/workflow';
import type { SearchAttributeUpdatePair } from '@temporalio/common';
import type { Activities, GetJobResult, SendFollowUpResult } from '../../activities/index.js';
import {
  finishSignal,
  keyReadSignal,
  MAX_KEYWORD_LENGTH,
  pollNowSignal,
  progressQuery,
  projectBudgetWorkflowId,
  resolveDeliveryUpdate,
  SearchAttribute,
  stillThereSignal,
  wakeSignal,
  withdrawSignal,
  type AgentJob,
  type FollowUpProgress,
  type FollowUpSettings,
  type FollowUpState as ShownState,
  type SendOutcome,
} from '../../contract/index.js';
import { describeProgress } from '../../follow-up/details.js';
import { fingerprint, isAtWork } from '../../follow-up/job-state.js';
import type { FollowUpState } from './state.js';

/** A get-job call ends within 7 s, so that its local activity costs one event. */
const GET_JOB_TIMEOUT = '10s';

const { getJob } = proxyLocalActivities<Activities>({
  startToCloseTimeout: GET_JOB_TIMEOUT,
  // The poll loop is the retry.
  retry: { maximumAttempts: 1 },
});

const { sendFollowUp } = proxyActivities<Activities>({
  startToCloseTimeout: '75s',
  // Without limit: each invocation asks the gate with a token of its own, and only one of them may send.
  retry: { initialInterval: '1s', maximumInterval: '60s' },
});

/** A follow-up whose reads are refused for their key repeats that to the budget. */
const TELL_OF_KEY_EVERY_MS = 10 * 60_000;

const STALE_RETRY_MS = 200;
const MOST_STALE_DOUBLINGS = 8;

/**
 * Whether this run takes the place of another, by a reset or by a retry policy. What it was told before proves nothing
 * any more: the run that it replaces may have gone on from there and sent the message.
 */
export function mayReplaceAnotherRun(): boolean {
  const { runId, originalExecutionRunId, attempt } = workflowInfo();
  return runId !== originalExecutionRunId || attempt > 1;
}

/** What the steps of a follow-up share: its settings and state, what others said to it, and how it shows itself. */
export class FollowUpContext {
  /** The cancellation, once it was asked for. */
  cancellation: CancelledFailure | undefined;
  woken = false;
  #shownState: ShownState = 'sending';

  constructor(
    readonly settings: FollowUpSettings,
    readonly state: FollowUpState,
    readonly input: unknown,
  ) {
    // The root scope's cancellation is looked at, never thrown: a send under way is awaited to its end.
    CancellationScope.current().cancelRequested.catch((error: unknown) => {
      this.cancellation = error as CancelledFailure;
    });
    setHandler(progressQuery, () => this.progress());
    setHandler(pollNowSignal, () => {
      state.pollNow = true;
    });
    setHandler(wakeSignal, () => {
      this.woken = true;
    });
    setHandler(stillThereSignal, () => undefined);
    setHandler(
      resolveDeliveryUpdate,
      (word) => {
        state.operatorWord = word;
      },
      { validator: (word: unknown) => this.#validateWord(word) },
    );
  }

  /** Reads the job. Never throws: a local activity that failed is a read that failed. */
  async getJob(summary: string, beforeSend?: true): Promise<GetJobResult> {
    const { projectId, jobId } = this.settings;
    let result: GetJobResult;
    try {
      result = await getJob.executeWithOptions(
        { startToCloseTimeout: GET_JOB_TIMEOUT, retry: { maximumAttempts: 1 }, summary },
        [{ projectId, jobId, ...(beforeSend && { beforeSend }) }],
      );
    } catch {
      result = { kind: 'failed', reason: 'timeout', message: 'the worker could not read the job in time' };
    }
    if (result.kind === 'job') {
      this.state.job = result.job;
      this.state.jobSeenAtMs = Date.now();
    } else {
      this.noteError(result.message);
    }
    // Not awaited where there is nothing to tell: each promise of a poll costs.
    if (result.kind === 'failed' || this.state.keyRefusedAtMs !== undefined) await this.#tellOfKey(result);
    if (result.sendStartToCloseMs !== undefined) this.state.sendStartToCloseMs = result.sendStartToCloseMs;
    return result;
  }

  /** Asks the gate and, where it grants and `hold` is not set, sends. */
  async send(hold: boolean): Promise<SendFollowUpResult> {
    const { projectId, jobId, prompt, lane } = this.settings;
    const { sendNumber, firstRunStartedAtMs } = this.state;
    this.woken = false;
    this.state.provenNotSent = false;
    this.state.knownToGate = true;
    const result = await sendFollowUp.executeWithOptions(
      {
        startToCloseTimeout: this.state.sendStartToCloseMs,
        retry: { initialInterval: '1s', maximumInterval: '60s' },
        summary: hold ? `keep the place for ${jobId}` : `send ${sendNumber} to ${jobId}`,
      },
      [{ projectId, jobId, prompt, lane, sendNumber, hold, firstRunStartedAtMs }],
    );
    if (result.kind !== 'stale') this.state.staleAsks = 0;
    this.state.provenNotSent = result.kind === 'closed' || (result.kind === 'wait' && result.proven);
    return result;
  }

  /** Wait before an ask that was overtaken is made anew; doubled for each one in a row, up to 51 s. */
  staleBackoffMs(): number {
    return STALE_RETRY_MS * 2 ** Math.min(this.state.staleAsks++, MOST_STALE_DOUBLINGS);
  }

  /**
   * Sleeps on a durable timer, or until `until` holds, or a cancel arrives. Issues the commands of the SDK's `condition`
   * with a timeout, and makes fewer promises: the worker records a stack for each, the dearest part of a poll.
   */
  sleep(ms: number, summary: string, until: () => boolean = () => false): Promise<void> {
    const scope = new CancellationScope({ cancellable: true });
    let hasFired = false;
    const fired = scope.run(() => sleep(Math.max(1, Math.round(ms)), { summary }));
    fired.then(
      () => {
        hasFired = true;
      },
      // Cancelled below.
      () => undefined,
    );
    return condition(() => hasFired || this.cancellation !== undefined || until()).then(() => {
      if (!hasFired) scope.cancel();
    });
  }

  /** Shows where the follow-up stands: search attributes that changed, and the current details. */
  show(shownState: ShownState): void {
    const { settings, state } = this;
    this.#shownState = shownState;
    const pairs: SearchAttributeUpdatePair[] = [];
    if (state.shown.state === undefined) {
      pairs.push({ key: SearchAttribute.projectId, value: settings.projectId });
      pairs.push({ key: SearchAttribute.jobId, value: settings.jobId });
    }
    const jobStatus = state.job?.status?.slice(0, MAX_KEYWORD_LENGTH);
    const prLink = state.job?.prLink && state.job.prLink.length <= MAX_KEYWORD_LENGTH ? state.job.prLink : null;
    if (shownState !== state.shown.state) pairs.push({ key: SearchAttribute.state, value: shownState });
    if (jobStatus && jobStatus !== state.shown.jobStatus)
      pairs.push({ key: SearchAttribute.jobStatus, value: jobStatus });
    // `null` takes the attribute away: while the agent works, the link of the turn before must not stand there.
    if (prLink !== (state.shown.prLink ?? null)) pairs.push({ key: SearchAttribute.prLink, value: prLink });
    if (pairs.length > 0) {
      upsertSearchAttributes(pairs);
      state.shown = {
        state: shownState,
        ...((jobStatus ?? state.shown.jobStatus) && { jobStatus: jobStatus ?? state.shown.jobStatus }),
        ...(prLink !== null && { prLink }),
      };
    }
    setCurrentDetails(describeProgress(this.progress(), Date.now()));
  }

  /**
   * Tells the budget that a read was refused for its key, or that one is taken again. Where the project has no budget
   * yet, an ask for the place alone makes one: nobody else would say what is wrong.
   */
  async #tellOfKey(read: GetJobResult): Promise<void> {
    const { settings, state } = this;
    const isRefused = read.kind === 'failed' && (read.reason === 'unauthorized' || read.reason === 'no-key');
    if (isRefused) {
      if (Date.now() < (state.keyRefusedAtMs ?? -Infinity) + TELL_OF_KEY_EVERY_MS) return;
      state.keyRefusedAtMs = Date.now();
    } else {
      if (read.kind === 'failed' || state.keyRefusedAtMs === undefined) return;
      delete state.keyRefusedAtMs;
    }
    const budget = getExternalWorkflowHandle(projectBudgetWorkflowId(settings.projectId));
    const tell = () => budget.signal(keyReadSignal, { isRefused });
    try {
      await tell();
    } catch {
      if (!isRefused || state.phase !== 'asking') return;
      await this.send(true);
      await tell().catch(() => undefined);
    }
  }

  /** Keeps the last thing that went wrong, to be shown. */
  noteError(message: string): void {
    this.state.lastError = { atMs: Date.now(), message };
  }

  /** Tells the gate that this follow-up has ended. Awaited: a signal issued in the completing task is never delivered. */
  async leave(how: 'finish' | 'withdraw', outcome?: SendOutcome): Promise<void> {
    if (!this.state.knownToGate) return;
    const { projectId, jobId } = this.settings;
    const gate = getExternalWorkflowHandle(projectBudgetWorkflowId(projectId));
    const job = this.state.job;
    try {
      await gate.signal(how === 'finish' ? finishSignal : withdrawSignal, {
        workflowId: workflowInfo().workflowId,
        jobId,
        sendNumber: this.state.sendNumber,
        ...(outcome && { outcome }),
        ...(how === 'finish' && job && !isAtWork(job) && { lastJobSeen: fingerprint(job) }),
      });
    } catch {
      // No gate, or a stopped one: there is nothing to be told.
    }
  }

  /** Whether the server suggests to continue as new. Asked between steps, when nothing is under way. */
  continueAsNewIsDue(): boolean {
    return workflowInfo().continueAsNewSuggested && this.cancellation === undefined;
  }

  /** Ends this run; another goes on from its state. */
  async continueAsNew(): Promise<never> {
    if (mayReplaceAnotherRun()) this.state.provenNotSent = false;
    return continueAsNew(this.input, this.state);
  }

  /** Last job seen, or the baseline. */
  lastJob(): AgentJob | undefined {
    return this.state.job ?? this.state.baseline;
  }

  progress(): FollowUpProgress {
    const { settings, state } = this;
    const iso = (ms: number) => new Date(ms).toISOString();
    const waiting = ['waiting-for-budget', 'waiting-for-job', 'blocked'].includes(this.#shownState);
    const polling = this.#shownState === 'polling' || this.#shownState === 'reconciling';
    return {
      projectId: settings.projectId,
      jobId: settings.jobId,
      state: this.#shownState,
      ...(waiting && state.wait && { waitReason: state.wait.reason }),
      ...(this.#shownState === 'waiting-for-budget' && state.wait?.position && { position: state.wait.position }),
      ...(waiting && state.wait?.expectedSendAtMs && { expectedSendAt: iso(state.wait.expectedSendAtMs) }),
      ...(state.sentAtMs !== undefined && { sentAt: iso(state.sentAtMs) }),
      polls: state.polls,
      ...(polling && state.nextPollAtMs !== undefined && { nextPollAt: iso(state.nextPollAtMs) }),
      ...(state.job && { job: state.job, prLink: state.job.prLink ?? null }),
      ...(state.jobSeenAtMs !== undefined && { jobSeenAt: iso(state.jobSeenAtMs) }),
      ...(state.lastError && { lastError: { at: iso(state.lastError.atMs), message: state.lastError.message } }),
    };
  }

  #validateWord(word: unknown): void {
    if (word !== 'sent' && word !== 'notSent') {
      throw ApplicationFailure.create({
        type: 'InvalidInput',
        message: `must be 'sent' or 'notSent' (given ${JSON.stringify(word)})`,
        nonRetryable: true,
      });
    }
    // Shown as done, it has decided already: it only tells its budget so.
    if (this.state.phase !== 'reconciling' || this.#shownState === 'done') {
      throw ApplicationFailure.create({
        type: 'InvalidInput',
        message: `the follow-up is not reconciling (it is ${this.#shownState}): its delivery is not in doubt`,
        nonRetryable: true,
      });
    }
  }
}
