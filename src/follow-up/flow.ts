import { defined, hash64, iso } from '../common/index.js';
import {
  type AgentJob,
  type BlockReason,
  type Delivered,
  type DeliveryDecision,
  deliveryDecisions,
  endOf,
  type FailureDetails,
  FailureType,
  type FollowUpFacts,
  type FollowUpProgress,
  type FollowUpResult,
  type FollowUpSettings,
  type FollowUpStanding,
  isEndState,
  isTerminalStatus,
  type SendOutcome,
  type WaitReason,
} from '../contract/index.js';
import {
  type AskReply,
  describeEarlier,
  type EarlierSend,
  fingerprint,
  type Full,
  type Granted,
  isAtWork,
  toReason,
  type Waiting,
} from '../protocol/index.js';
import {
  firstObservation,
  isLinkNew,
  NOT_FOUND_MS,
  type Observation,
  type WatchGoal,
  type WatchRequest,
  type WatchResult,
} from './judge.js';
import { type FollowUpPort, grantName, reasonAgainst, type SendResult } from './port.js';

/** Thrown when a follow-up ends without a result. */
export class Failed extends Error {
  constructor(
    readonly type: FailureType,
    message: string,
    readonly delivered: Delivered,
    readonly details: Pick<FailureDetails, 'statusCode' | 'serviceMessage' | 'issues'> = {},
  ) {
    super(message);
  }
}

/** The part of a watch request that describes the turn to wait for. */
type TurnToWatch = Pick<WatchRequest, 'baseline' | 'arrivedByMs' | 'runId'>;

interface Delivery {
  kind: FollowUpResult['delivery'];
  sentAtMs: number;
  turn: TurnToWatch;
  /** Whether the service's response to the message showed the job at work. */
  observedActive: boolean;
}

/** The end of a wait: a grant, or the budget's record of an earlier send. */
interface Slot {
  reply: Granted | EarlierSend;
  /** The job just before the ask, or before the send. Missing if the send is to read it. */
  jobBefore?: AgentJob;
}

/** Where a follow-up without a slot stands in its project's line. */
type LinePosition = Pick<FollowUpFacts, 'position' | 'expectedSendAt' | 'nextTryAt' | 'pause'>;

/**
 * A waiting follow-up asks again after this time, because a failover may have lost its grant. A new budget wakes it.
 */
const ASK_AGAIN_MS = 21_600_000;
/** Shortest such time, for an overdue grant. */
const ASK_SOON_MS = 180_000;
/** Longest wait between sends that do not start, and between watches that an operator ends. */
const LONGEST_BACKOFF_MS = 3_600_000;
/** Longest wait after a refused read prevented a send: the budget knows how long to wait further, and can resume. */
const LONGEST_REFUSED_MS = 60_000;
const LONGEST_FULL_MS = 900_000;
/** Two 404 to a message that are further apart do not add up. It waits {@link NOT_FOUND_MS}, and then for a slot. */
const LONGEST_MISSING_MS = 300_000;
/** Waits grow to this share of the elapsed time, so that even a wait of a year stays within the limits of a history. */
const LONG_WAIT_SHARE = 1 / 300;
/** Shortest time for which a reset run asks about its predecessor's send. */
const SHORTEST_ASK_MS = 60_000;
/** After this many consecutive uses of `pollNow`, a watch for an end continues long enough to see one. */
const POLLS_IN_A_ROW = 5;
const LONGEST_CONFIRMATION_MS = 40_000;

/** Runs one follow-up: waits for the job and a slot, sends, and watches the job until the message's turn ends. */
export class FollowUp {
  #signalledReply: AskReply | undefined;
  #isCancelled = false;
  #decision: DeliveryDecision | undefined;
  /** Whether an operator may decide, once, whether the message was delivered. */
  #isDecisionDue = false;
  /** Bounds how often `pollNow` restarts the watch for an end: each use adds the time that a watch needs to confirm one. */
  #watchedUntilMs = 0;
  /** Whether an earlier run, or an earlier send of this run, may have delivered the message. */
  #isInDoubt: boolean;
  /** Whether the budget has replied to an ask. */
  #hasReply = false;
  /** Whether the message was sent again without knowing whether it had arrived: at most once. */
  #isResent = false;
  #fullInARow = 0;
  #sendNumber = 1;
  /** When the last send of the message began, or may have. */
  #lastSendAtMs: number | undefined;
  /** Once the message may have been delivered, the time until which the job may show the previous turn. */
  #turnUntilMs: number | undefined;
  #stop: () => void = () => undefined;
  /** Whether the flow stopped its own activity. Otherwise, someone ended the activity in Temporal. */
  #isInterrupted = false;
  #isWoken = false;
  /** {@link grantName} of the last grant that was used or returned. No grant is used twice. */
  #usedGrant = '';
  /** Time of the first workflow task, so that a delayed start shortens no wait. */
  readonly #beganAtMs: number;
  #patienceEndsMs: number;
  readonly #facts: Omit<FollowUpFacts, 'projectId' | 'jobId' | 'learnedAt'> = { polls: 0 };
  #standing: FollowUpStanding & LinePosition = { state: 'waiting-for-budget', waitReason: 'slot' };

  constructor(
    readonly settings: FollowUpSettings,
    private readonly port: FollowUpPort,
  ) {
    this.#isInDoubt = port.mayHaveSent;
    this.#beganAtMs = port.nowMs();
    this.#patienceEndsMs = this.#beganAtMs + settings.budgetWaitTimeoutMs;
  }

  /** Receives a grant that was not immediate, or a new reason to wait. */
  receive(reply: Granted | Waiting): void {
    // A budget's signals are unordered and may come late.
    if (reply.sendNumber !== this.#sendNumber) return;
    if (reply.kind === 'granted' && grantName(reply) === this.#usedGrant) return;
    const isOutdated = this.#signalledReply?.kind === 'granted' || this.#fullInARow > 0;
    if (isOutdated && reply.kind === 'waiting') return;
    this.#signalledReply = reply;
    // An ask that the server repeats, or a watch for rest, can take long. After a send, a late grant must not stop the watch.
    const { state } = this.#standing;
    if (reply.kind === 'granted' && state !== 'polling' && state !== 'reconciling') this.#interrupt();
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#interrupt();
  }

  /**
   * Reads the job or asks the budget now. This restarts a watch, which then forgets when it first saw an end, so only
   * some are accepted.
   */
  pollNow(): void {
    this.wake();
    if (this.#standing.state !== 'polling') return this.#interrupt();
    const nowMs = this.port.nowMs();
    const neededMs = LONGEST_CONFIRMATION_MS + 2 * this.settings.prLinkGraceMs;
    const untilMs = Math.max(this.#watchedUntilMs, nowMs) + neededMs;
    if (untilMs > nowMs + POLLS_IN_A_ROW * neededMs) return;
    this.#watchedUntilMs = untilMs;
    // If the task in which the watch ended is undone, the watch must end again instead of being stopped.
    void this.port.nextTask().then(() => this.#interrupt());
  }

  /** Makes a follow-up in line ask again, because the budget may have been replaced. */
  wake(): void {
    this.#isWoken = true;
  }

  /** Why an operator's decision about the delivery is refused; `undefined` if it is accepted. */
  issueWithDecision(decision: unknown): string | undefined {
    if (!deliveryDecisions.some((known) => known === decision)) {
      return `resolveDelivery: must be ${deliveryDecisions.join(' or ')} (given ${JSON.stringify(decision)})`;
    }
    const { state } = this.#standing;
    if (state !== 'reconciling') return `resolveDelivery: the follow-up must be reconciling (it is ${state})`;
    return this.#isDecisionDue ? undefined : 'resolveDelivery: the delivery has already been decided';
  }

  /** Applies an operator's decision whether the message was delivered. */
  resolveDelivery(decision: DeliveryDecision): void {
    this.#decision = decision;
    this.#isDecisionDue = false;
    this.#interrupt();
  }

  #interrupt(): void {
    this.#isInterrupted = true;
    this.#stop();
  }

  progress(): FollowUpProgress {
    const { projectId, jobId } = this.settings;
    return { projectId, jobId, learnedAt: iso(this.port.nowMs()), ...this.#facts, ...this.#standing };
  }

  /**
   * Runs the follow-up to its end.
   *
   * @throws Failed
   */
  async run(): Promise<FollowUpResult> {
    try {
      let result: FollowUpResult | undefined;
      // A run whose predecessor had the turn asks the budget whether it still has it.
      while (!result) result = await this.#watchTurn(await this.#deliver());
      await this.port.reportToBudget({ kind: 'end', lastTurn: fingerprint(result.job) });
      this.#show(endOf(result));
      return result;
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      const failed = await this.#checked(error);
      await this.port.nextTask();
      const turn = this.#turnUntilMs === undefined ? {} : { turnUntilMs: this.#turnUntilMs };
      await this.port.reportToBudget({ kind: 'end', ...turn });
      this.#show(endOf(failed));
      throw failed;
    }
  }

  async #deliver(): Promise<Delivery> {
    const { port } = this;
    let missingSinceMs: number | undefined;
    let isReadRefused = false;
    for (let notSentInARow = 0; ;) {
      const slot = await this.#getSlot();
      const { reply } = slot;
      const isGranted = reply.kind === 'granted';
      if (!isGranted) {
        this.#sendNumber = reply.sendNumber;
        const isUndelivered = reply.verdict === 'undelivered';
        if (isUndelivered && reply.runId === port.runId) this.#isInDoubt = false;
        // The outcomes of the earlier sends are not known.
        if (reply.sendNumber > 1) this.#isInDoubt = true;
        if (reply.verdict === 'superseded' || reply.verdict === 'forgotten') throw this.#closed(reply);
        // Of earlier sends, only their number is known.
        const neverBegan = isUndelivered && reply.sendNumber === 1 && reply.outcome === 'notSent';
        if (!neverBegan) this.#lastSendAtMs = reply.grantedAtMs;
      }
      if (isGranted) this.#usedGrant = grantName(reply);
      const isToRead = isGranted && !slot.jobBefore && isReadRefused;
      const unsent = isToRead ? await this.#readBefore(reply, slot) : undefined;
      const sent: SendResult = isGranted
        ? (unsent ?? (await this.#send(reply, slot)))
        : { grant: '', outcome: reply.outcome ?? 'unknown' };
      const { outcome } = sent;
      if (outcome === 'foreign') {
        this.#isInDoubt = true;
        continue;
      }
      const nowMs = port.nowMs();
      if (isGranted) await this.#reportOutcome(reply, outcome, sent);
      if (outcome === 'rejected') throw this.#rejected(sent);
      const isMissing = outcome === 'notFound';
      // Only a second 404 soon after the first shows that the job does not exist.
      const isSoon = missingSinceMs !== undefined && nowMs - missingSinceMs <= LONGEST_MISSING_MS;
      if (!isMissing || !isSoon) missingSinceMs = isMissing ? nowMs : undefined;
      if (missingSinceMs !== undefined && nowMs - missingSinceMs >= NOT_FOUND_MS)
        throw this.#notFound(sent.message ?? 'HTTP 404', this.#unsent());
      if (outcome === 'sent' || outcome === 'unknown') {
        const delivery = deliveryOf(sent, slot, nowMs);
        this.#turnUntilMs = delivery.turn.arrivedByMs + this.settings.settleTimeMs;
        const resolved = outcome === 'sent' ? delivery : await this.#reconcile(delivery, sent.message);
        if (resolved && resolved !== 'foreign') return resolved;
        if (resolved === 'foreign') continue;
        this.#isInDoubt = true;
        await port.nextTask();
      }
      this.#noteError(sent.message);
      this.#sendNumber += 1;
      notSentInARow = outcome === 'notSent' ? notSentInARow + 1 : 0;
      isReadRefused = outcome === 'notSent' && sent.refusal !== undefined;
      if (notSentInARow > 0 || isMissing) {
        const { refusal: waitReason = isMissing ? 'service' : 'slot' } = sent;
        const longestMs = waitReason === 'slot' ? LONGEST_BACKOFF_MS : LONGEST_REFUSED_MS;
        const waitMs = isMissing ? NOT_FOUND_MS : this.#backoffMs(notSentInARow, longestMs);
        this.#show({ state: stateOf(waitReason), waitReason }, { nextTryAt: iso(port.nowMs() + waitMs) });
        await this.#pause(waitMs, this.#patienceEndsMs);
      }
    }
  }

  /**
   * Before a follow-up says "no" without a reply from its budget, it asks for one: an earlier run may have sent the
   * message, if the key was used before.
   */
  async #checked(error: Failed): Promise<Failed> {
    if (error.delivered !== 'no' || this.#hasReply) return error;
    const delivered = (await this.port.wasDelivered(hash64(this.settings.prompt))) ?? 'unknown';
    if (delivered === 'no') return error;
    const { type, message, details } = error;
    return new Failed(type, message + describeEarlier(delivered), delivered, details);
  }

  /** Waits for a slot, and until the job accepts messages. */
  async #getSlot(): Promise<Slot> {
    const { port, settings } = this;
    const { projectId, jobId, lane, prompt, whenActive } = settings;
    const { mayHaveSent, startedAtMs } = port;
    const messageTag = hash64(prompt);
    const request = () => ({
      projectId,
      jobId,
      whenActive,
      isInDoubt: this.#isInDoubt,
      runId: port.runId,
      ask: { sendNumber: this.#sendNumber, lane, messageTag, mayHaveSent, startedAtMs },
    });
    this.#facts.waitsUntil = iso(this.#patienceEndsMs);
    for (let unansweredInARow = 0, deniedInARow = 0; ;) {
      this.#checkPatience();
      const pushed = this.#signalledReply;
      this.#signalledReply = undefined;
      if (pushed?.kind === 'granted' && pushed.sendNumber === this.#sendNumber) return { reply: this.#accept(pushed) };
      this.#isWoken = false;
      this.#isInterrupted = false;
      const asking = port.askForSlot(request(), this.#patienceEndsMs, ({ reason, message }) => {
        this.#noteError(message);
        this.#show({ state: 'blocked', waitReason: toReason(reason) ?? 'service' });
      });
      this.#stop = () => asking.stop();
      const asked = await asking.result;
      unansweredInARow = asked || this.#isInterrupted ? 0 : unansweredInARow + 1;
      if (unansweredInARow > 0) await this.#pause(this.#backoffMs(unansweredInARow), this.#patienceEndsMs);
      if (!asked) continue;
      switch (asked.kind) {
        case 'archived':
          if (asked.reply) this.#accept(asked.reply);
          this.#noteJob(asked.job);
          throw this.#unsentFailure(FailureType.JobArchived, 'The job was archived before the message was sent');
        case 'notServed': {
          const details = { issues: [{ field: 'projectId', message: asked.message }] };
          const message = `Invalid input: projectId: ${asked.message}`;
          throw new Failed(FailureType.InvalidInput, message, this.#unsent(), details);
        }
        case 'notFound':
          this.#noteError(asked.message);
          break;
        case 'asked': {
          const { jobBefore, busyJob, refusal, reply: first } = asked;
          this.#hasReply = true;
          this.#noteError(refusal);
          if (busyJob) this.#noteJob(busyJob);
          const reply = await this.#awaitGrant(first);
          if (reply === 'watch') break;
          if (reply) return { reply, ...(reply === first && jobBefore && { jobBefore }) };
          continue;
        }
      }
      // Replicas of the service may disagree for a long time.
      const reason = asked.kind === 'notFound' ? 'service' : 'job-busy';
      deniedInARow = (await this.#waitForRest(reason)) ? 0 : deniedInARow + 1;
      if (deniedInARow > 1) await this.#pause(this.#backoffMs(deniedInARow), this.#patienceEndsMs);
    }
  }

  /** Waits for the grant. Returns `undefined` when it is time to ask again, and `watch` if the job is to be watched. */
  async #awaitGrant(first: AskReply): Promise<Granted | EarlierSend | 'watch' | undefined> {
    const { port } = this;
    for (let reply = first; ;) {
      if (reply.kind === 'earlierSend') return reply;
      if (reply.kind === 'ended') {
        throw new Failed(FailureType.Closed, 'The budget has already recorded the end of this follow-up', 'unknown');
      }
      if (reply.kind === 'otherMessage') {
        const message = 'The key was already used for another message; use a different key';
        throw new Failed(FailureType.Closed, message, this.#unsent());
      }
      if (reply.sendNumber !== this.#sendNumber) return undefined;
      this.#accept(reply);
      // The end of a cancelled follow-up returns the slot.
      if (reply.kind === 'granted') return this.#isCancelled ? undefined : reply;
      if (reply.kind === 'waiting' && reply.isToWatch) return 'watch';
      const waitMs = Math.min(this.#askAgainMs(reply), this.#patienceEndsMs - port.nowMs());
      this.#showWaiting(reply, port.nowMs() + waitMs);
      // The run before a reset may have reported its end, and its place in line is then lost.
      const { runId } = reply;
      const isOver = () =>
        this.#signalledReply !== undefined || this.#isCancelled || this.#isWoken || port.wasResetSince(runId);
      await port.condition(isOver, Math.max(1, waitMs));
      if (this.#signalledReply === undefined || this.#isCancelled) return undefined;
      reply = this.#signalledReply;
      this.#signalledReply = undefined;
    }
  }

  /**
   * Only the budget can rule out a send of an earlier run: it gives no place to a follow-up that may have sent. A
   * reply to another run proves nothing, because a reset run replays its predecessor's replies.
   */
  #accept<A extends Granted | Waiting | Full>(reply: A): A {
    this.#hasReply = true;
    if (reply.runId === this.port.runId) this.#isInDoubt &&= reply.sendNumber > 1;
    return reply;
  }

  #askAgainMs(reply: Waiting | Full): number {
    this.#fullInARow = reply.kind === 'full' ? this.#fullInARow + 1 : 0;
    if (reply.kind === 'full') {
      const waitMs = Math.min(this.#longestMs(LONGEST_FULL_MS), reply.retryMs * 2 ** (this.#fullInARow - 1));
      return waitMs * (1 + this.port.random());
    }
    const nowMs = this.port.nowMs();
    const { expectedAtMs = reply.reason === 'counting' ? nowMs : Infinity } = reply;
    return Math.max(
      this.#longestMs(ASK_SOON_MS),
      Math.min(this.#longestMs(ASK_AGAIN_MS), expectedAtMs + ASK_SOON_MS - nowMs),
    );
  }

  #backoffMs(times: number, longestMs = LONGEST_BACKOFF_MS): number {
    return Math.min(this.#longestMs(longestMs), 500 * 2 ** times);
  }

  #longestMs(ms: number): number {
    return Math.max(ms, (this.port.nowMs() - this.#beganAtMs) * LONG_WAIT_SHARE);
  }

  /**
   * Reads the job before the send is scheduled with its prompt, because the service refused the read last time. Returns the
   * outcome if nothing is to be sent.
   */
  async #readBefore(grant: Granted, slot: Slot): Promise<SendResult | undefined> {
    const { projectId, jobId, whenActive } = this.settings;
    const read = await this.port.readJob({ projectId, jobId, runId: grant.runId });
    if (read.kind === 'foreign') return { grant: grantName(grant), outcome: 'foreign' };
    if (read.kind === 'job') slot.jobBefore = read.job;
    const reason = read.kind === 'job' ? reasonAgainst(read.job, whenActive) : read.message;
    const message = this.#isCancelled ? 'cancelled' : reason;
    if (message === undefined) return undefined;
    // If this task is undone, the next read may show a job that accepts messages.
    await this.port.nextTask();
    return { grant: grantName(grant), outcome: 'notSent', message, ...(read.kind === 'failed' && read.refused) };
  }

  async #send(grant: Granted, { jobBefore }: Slot): Promise<SendResult> {
    const { projectId, jobId, prompt, whenActive } = this.settings;
    const { runId, sendNumber, grantedAtMs, leaseMs } = grant;
    // A decision covers one send only.
    this.#decision = undefined;
    const request = { grant: { runId, sendNumber, grantedAtMs, leaseMs }, ...(jobBefore && { jobBefore }) };
    const beforeMs = this.#lastSendAtMs;
    // Shown before the send, because a new budget finds possible sends by their state and time.
    this.#lastSendAtMs = this.port.nowMs();
    this.#show({ state: 'sending' });
    const sent = await this.port.sendMessage({ projectId, jobId, prompt, whenActive, ...request });
    if (sent.outcome === 'notSent') this.#lastSendAtMs = beforeMs;
    return sent;
  }

  /** Waits until the job is found and at rest. Returns `false` if the first poll shows that. */
  async #waitForRest(waitReason: 'job-busy' | 'service'): Promise<boolean> {
    const { port } = this;
    const isGranted = () => this.#signalledReply?.kind === 'granted';
    const turn = { baseline: { job: {}, readByMs: 0 }, arrivedByMs: 0, runId: port.runId };
    const standing = { state: stateOf(waitReason), waitReason };
    const end = await this.#watch('rest', turn, this.#patienceEndsMs, standing, { isOver: isGranted });
    if (end?.kind === 'notFound') throw this.#notFound(end.message, this.#unsent());
    if (end?.kind === 'deadline') await this.#pause(LONGEST_BACKOFF_MS, this.#patienceEndsMs);
    return end?.kind !== 'rest' || end.observation.polls > 1;
  }

  /** Finds out whether the message was delivered. Returns `undefined` to send it again, `foreign` if another run has the turn. */
  async #reconcile(sent: Delivery, why: string | undefined): Promise<Delivery | 'foreign' | undefined> {
    const { settleTimeMs, onUnknownDelivery } = this.settings;
    const { port } = this;
    this.#noteError(why);
    const { turn } = sent;
    const deadlineMs = turn.arrivedByMs + settleTimeMs;
    this.#facts.waitsUntil = iso(deadlineMs);
    const isOver = () => this.#decision !== undefined;
    this.#isDecisionDue = true;
    const end = await this.#watch('evidence', turn, deadlineMs, { state: 'reconciling' }, { isOver });
    this.#isDecisionDue = false;
    if (end?.kind === 'foreign') return this.#askWhoHasTurn(sent);
    const decision = this.#decision;
    this.#decision = undefined;
    if (end?.kind === 'evidence') {
      const arrivedByMs = Math.min(turn.arrivedByMs, port.nowMs());
      return { ...sent, turn: { ...turn, arrivedByMs }, observedActive: isAtWork(end.job) };
    }
    if (this.#isCancelled) {
      throw new Failed(FailureType.Cancelled, 'Cancelled while the delivery was unknown', 'unknown');
    }
    if (decision === 'sent' || (!decision && onUnknownDelivery === 'assumeSent')) return { ...sent, kind: 'assumed' };
    if (decision === 'notSent' || (onUnknownDelivery === 'resend' && !this.#isResent)) {
      this.#facts.earlierSendUnknown = true;
      this.#isResent ||= !decision;
      // The wait for the first send may have used up the time.
      if (decision)
        this.#patienceEndsMs = Math.max(this.#patienceEndsMs, port.nowMs() + this.settings.budgetWaitTimeoutMs);
      return undefined;
    }
    const message = `It is unknown whether the message was delivered${why === undefined ? '' : `: ${why}`}`;
    throw new Failed(FailureType.DeliveryUnknown, message, 'unknown');
  }

  /** Watches the job until the message's turn ends. Returns `undefined` if another run has the turn. */
  async #watchTurn(sent: Delivery): Promise<FollowUpResult | undefined> {
    const { projectId, jobId, jobTimeoutMs } = this.settings;
    const { kind: delivery, sentAtMs, turn, observedActive } = sent;
    const deadlineMs = sentAtMs + jobTimeoutMs;
    Object.assign(this.#facts, { delivery, sentAt: iso(sentAtMs), waitsUntil: iso(deadlineMs) });
    const end = await this.#watch('end', turn, deadlineMs, { state: 'polling' }, { observedActive });
    const delivered = delivery === 'assumed' ? 'unknown' : 'yes';
    if (end?.kind === 'ended') {
      const { job, observation } = end;
      this.#noteJob(job, true);
      const prLink = job.prLink ?? null;
      return {
        ...{ projectId, jobId, status: job.status, prLink },
        prLinkChanged: isLinkNew(job, turn.baseline),
        ...{ delivery, observedActive: observation.observedActive },
        ...{ sentAt: iso(sentAtMs), finishedAt: iso(this.port.nowMs()), polls: this.#facts.polls, job },
      };
    }
    if (end?.kind === 'foreign') return void this.#askWhoHasTurn(sent);
    if (end?.kind === 'notFound') throw this.#notFound(end.message, delivered);
    if (this.#isCancelled) throw new Failed(FailureType.Cancelled, 'Cancelled after the send', delivered);
    throw new Failed(FailureType.JobTimeout, 'The job did not end in time', delivered);
  }

  /** Another run sent the message, so the wait may last as long as the job, not only `budgetWaitTimeout`. */
  #askWhoHasTurn({ sentAtMs }: Delivery): 'foreign' {
    const untilMs = Math.max(sentAtMs + this.settings.jobTimeoutMs, this.port.nowMs() + SHORTEST_ASK_MS);
    this.#patienceEndsMs = Math.max(this.#patienceEndsMs, untilMs);
    return 'foreign';
  }

  /** Watches until an end. Returns `undefined` after a cancel or when `isOver()`. */
  async #watch(
    until: WatchGoal,
    turn: TurnToWatch,
    deadlineMs: number,
    standing: FollowUpStanding,
    { isOver = (): boolean => false, observedActive = false } = {},
  ): Promise<WatchResult | undefined> {
    const { projectId, jobId, poll, settleTimeMs, prLinkGraceMs } = this.settings;
    const { port } = this;
    const request = { projectId, jobId, until, ...turn, poll, settleTimeMs, prLinkGraceMs, deadlineMs };
    let trouble: string | null = null;
    let observation: Observation | undefined = observedActive
      ? { ...firstObservation(request, port.nowMs()), observedActive }
      : undefined;
    this.#show(standing);
    for (let stops = 0; !this.#isCancelled && !isOver();) {
      this.#isInterrupted = false;
      const watch = port.watchJob({ ...request, trouble, ...(observation && { observation }) });
      this.#stop = () => watch.stop();
      const end = await watch.result;
      stops = end || this.#isInterrupted ? 0 : stops + 1;
      if (!end) {
        // After `pollNow`, or when an operator ends the activity, the job is read at once. Repeated ends back off.
        observation = { ...(observation ?? firstObservation(request, port.nowMs())), nextPollAt: iso(port.nowMs()) };
        if (stops > 1) await this.#pause(this.#backoffMs(stops), deadlineMs);
        continue;
      }
      ({ observation } = end);
      if (observation.job) this.#noteJob(observation.job, until === 'end' && observation.observedActive);
      this.#noteError(observation.lastError);
      if (end.kind !== 'trouble') {
        // The client library adds the polls of a running watch.
        if (until !== 'rest') this.#facts.polls += observation.polls;
        return end;
      }
      ({ trouble } = end);
      this.#showTrouble(trouble, standing);
    }
    return undefined;
  }

  /** A follow-up that may have sent never shows `blocked`, because a new budget finds it by its state. */
  #showTrouble(trouble: string | null, standing: FollowUpStanding): void {
    if (trouble === null) return this.#show(standing);
    const waitReason = toReason(trouble) ?? 'service';
    if (standing.state === 'polling' || standing.state === 'reconciling') this.#show({ ...standing, waitReason });
    else this.#show({ state: 'blocked', waitReason });
  }

  #showWaiting(reply: Waiting | Full, againAtMs: number): void {
    const { reason } = reply;
    const standing = { state: stateOf(reason), waitReason: reason };
    if (reply.kind === 'full') return this.#show(standing, { nextTryAt: iso(againAtMs) });
    const { position, expectedAtMs, pause } = reply;
    const expectedSendAt = expectedAtMs === undefined ? undefined : iso(expectedAtMs);
    this.#show(standing, defined({ position: position > 0 ? position : undefined, expectedSendAt, pause }));
  }

  #show(standing: FollowUpStanding, linePosition: LinePosition = {}): void {
    this.#standing = { ...standing, ...linePosition };
    if (isEndState(standing.state)) delete this.#facts.waitsUntil;
    this.port.show(this.progress(), this.#lastSendAtMs);
  }

  #noteJob(job: AgentJob, isOwnTurn = false): void {
    const { status: jobStatus, prLink } = job;
    delete this.#facts.jobStatus;
    delete this.#facts.prLink;
    Object.assign(this.#facts, { job, jobSeenAt: iso(this.port.nowMs()) });
    if (isOwnTurn) Object.assign(this.#facts, defined({ jobStatus }), prLink && { prLink });
  }

  #noteError(message: string | undefined): void {
    if (message !== undefined) this.#facts.lastError = { at: iso(this.port.nowMs()), message };
  }

  #unsent(): Delivered {
    return this.#isInDoubt ? 'unknown' : 'no';
  }

  #notFound(message: string, delivered: Delivered): Failed {
    const details = { statusCode: 404, serviceMessage: message };
    return new Failed(FailureType.JobNotFound, `The service does not know the job: ${message}`, delivered, details);
  }

  #rejected({ message = 'the service gave no reason', statusCode }: SendResult): Failed {
    const details = { serviceMessage: message, ...(statusCode !== undefined && { statusCode }) };
    return new Failed(
      FailureType.MessageRejected,
      `The service refused the message: ${message}`,
      this.#unsent(),
      details,
    );
  }

  /** A grant was used, and this run cannot learn more about it. */
  #closed({ outcome, verdict }: EarlierSend): Failed {
    const isForgotten = verdict === 'forgotten';
    const message = isForgotten
      ? 'The budget does not remember whether an earlier run of this follow-up sent the message'
      : 'The key was used before, and the job may have moved on to another message';
    return new Failed(FailureType.Closed, message, !isForgotten && outcome === 'sent' ? 'yes' : 'unknown');
  }

  #checkPatience(): void {
    if (this.#isCancelled) throw this.#unsentFailure(FailureType.Cancelled, 'Cancelled before the message was sent');
    if (this.port.isHistoryFull()) {
      const message = 'The message could not be sent before the history of its workflow was full';
      throw this.#unsentFailure(FailureType.BudgetWaitTimeout, message);
    }
    if (this.port.nowMs() < this.#patienceEndsMs) return;
    throw this.#unsentFailure(FailureType.BudgetWaitTimeout, 'The message could not be sent in time');
  }

  #unsentFailure(type: FailureType, message: string): Failed {
    const text = this.#isInDoubt ? `${message}; an earlier send of it may have been delivered` : message;
    return new Failed(type, text, this.#unsent());
  }

  /** Waits, at most until a cancel, an operator's decision or `untilMs`. */
  async #pause(ms: number, untilMs: number): Promise<void> {
    const leftMs = untilMs - this.port.nowMs();
    if (leftMs <= 0) return;
    this.#isInterrupted = false;
    await this.port.condition(() => this.#isCancelled || this.#isInterrupted, Math.min(ms, leftMs));
  }

  /** Names the run of the grant, because a reset run repeats its predecessor's reports. */
  async #reportOutcome(grant: Granted, outcome: SendOutcome, why: Partial<SendResult> = {}): Promise<void> {
    const { runId, sendNumber } = grant;
    const { refusal, statusCode, retryAfterMs } = why;
    const send = { kind: 'outcome', runId, sendNumber, outcome, atMs: this.port.nowMs() } as const;
    await this.port.reportToBudget({ ...send, ...defined({ refusal, statusCode, retryAfterMs }) });
  }
}

/** A delivery that is certain or possible. The job before another run's send is not known. */
function deliveryOf(
  { outcome, jobBefore, job }: SendResult,
  { reply, jobBefore: beforeAsk }: Slot,
  nowMs: number,
): Delivery {
  const isGranted = reply.kind === 'granted';
  const before = isGranted ? (jobBefore ?? beforeAsk ?? {}) : {};
  const outcomeAtMs = isGranted ? nowMs : reply.outcomeAtMs;
  const isSent = outcome === 'sent';
  return {
    kind: isSent ? 'sent' : 'inferred',
    sentAtMs: isSent ? outcomeAtMs : reply.grantedAtMs,
    turn: {
      baseline: {
        job: before,
        readByMs: outcomeAtMs,
        ...(isGranted && reply.lastTurn && { lastTurn: reply.lastTurn }),
      },
      arrivedByMs: isSent ? outcomeAtMs : reply.overAtMs,
      runId: reply.runId,
    },
    observedActive: isSent && job !== undefined && isAtWork(job) && isTerminalStatus(before.status),
  };
}

function stateOf(reason: WaitReason | BlockReason): 'waiting-for-budget' | 'waiting-for-job' | 'blocked' {
  if (reason === 'slot') return 'waiting-for-budget';
  return reason === 'job-busy' ? 'waiting-for-job' : 'blocked';
}
