import { iso } from '../contract/durations.js';
import type { SendOutcome, WaitReason } from '../contract/budget.js';
import { defined } from '../contract/defined.js';
import {
  type AgentJob,
  type Delivered,
  endOf,
  type FailureDetails,
  FailureType,
  type FollowUpResult,
  type FollowUpSettings,
  type ResolveWord,
  resolveWords,
} from '../contract/index.js';
import {
  type FollowUpFacts,
  type FollowUpProgress,
  type FollowUpStanding,
  isEndState,
  isTerminalStatus,
} from '../contract/follow-up.js';
import { hash64 } from '../contract/text.js';
import {
  type Answer,
  fingerprint,
  type Full,
  type Granted,
  isAtWork,
  isUndelivered,
  type Known,
  knownReason,
  mayHaveArrived,
  type Waiting,
} from '../contract/protocol.js';
import { type FollowUpPort, grantName, type SendResult } from './port.js';
import { firstSeen, isLinkNew, type Seen, type WatchGoal, type WatchOrder, type WatchResult } from './watch.js';

/** How a follow-up ends without a result. */
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

/** What a watch has to know of the turn that it waits for. */
type TurnToWatch = Pick<WatchOrder, 'baseline' | 'baselineAtMs' | 'lastTurn' | 'arrivedByMs' | 'runId'>;

/** A message that counts as delivered. */
interface Delivery {
  kind: FollowUpResult['delivery'];
  sentAtMs: number;
  turn: TurnToWatch;
  /** Whether the service's answer showed the job at work on the message. */
  observedActive: boolean;
}

/** What ended the wait: a grant, or what the budget knows of an earlier send. */
interface Slot {
  answer: Granted | Known;
  /** The job right before the ask. Missing if the grant did not come at once. */
  baseline?: AgentJob;
}

/** Where a follow-up without a slot stands in its project's line. */
type Place = Pick<FollowUpFacts, 'position' | 'expectedSendAt' | 'nextTryAt' | 'pause'>;

/** A follow-up whose grant does not come asks again after this time: its budget may have been replaced. */
const ASK_AGAIN_MS = 3_600_000;
/** The least such time, for one whose grant is overdue. */
const ASK_SOON_MS = 180_000;
/** A job that is missing in so many reads in a row before the send does not exist. */
const NOT_FOUND_LIMIT = 3;
/** Longest wait between sends that do not start, and between watches that are ended by hand. */
const LONGEST_BACKOFF_MS = 3_600_000;
/** Longest wait after a refused read, if that kept a send from its start. */
const LONGEST_REFUSED_MS = 600_000;
const LONGEST_FULL_MS = 900_000;
/** Each of these waits may last this share of the time so far: no wait of a year reaches the limit of a history. */
const LONG_WAIT_SHARE = 1 / 300;
/** A run that was reset asks what became of its predecessor's send, at the least for this long. */
const SHORTEST_ASK_MS = 60_000;
/** So often in a row `pollNow` begins the watch for an end anew. Then the watch gets the time that it needs to see one. */
const POLLS_IN_A_ROW = 5;
const LONGEST_CONFIRMATION_MS = 40_000;

/** One follow-up: wait for the job and a slot, send, watch the job to the end of the message's turn. */
export class FollowUp {
  #answer: Answer | undefined;
  #isCancelled = false;
  #operatorWord: ResolveWord | undefined;
  /** An operator may say what became of the send, once. */
  #isWordDue = false;
  /** Until when watches for an end have the time that they need. Each `pollNow` takes some. */
  #watchedUntilMs = 0;
  /** Whether an earlier run, or an earlier send of this run, may have delivered the message. */
  #isInDoubt: boolean;
  #fullInARow = 0;
  #sendNumber = 1;
  /** Once the message may have been delivered: until when the job may show the turn before. */
  #turnUntilMs: number | undefined;
  /** Stops what the follow-up waits for. */
  #stop: () => void = () => undefined;
  /** The follow-up itself stopped what it waited for; nobody ended it by hand. */
  #isInterrupted = false;
  /** It is time to ask the budget again. */
  #isWoken = false;
  /** {@link grantName} of the last grant that was used or given back. No grant is used twice. */
  #spent = '';
  /** The first workflow task, so that a delayed start takes nothing away from a wait. */
  readonly #beganAtMs: number;
  #patienceEndsMs: number;
  readonly #facts: Omit<FollowUpFacts, 'projectId' | 'jobId' | 'learnedAt'> = { polls: 0 };
  #standing: FollowUpStanding & Place = { state: 'waiting-for-budget', waitReason: 'slot' };

  constructor(
    readonly settings: FollowUpSettings,
    private readonly port: FollowUpPort,
  ) {
    this.#isInDoubt = port.mayHaveSent;
    this.#beganAtMs = port.nowMs();
    this.#patienceEndsMs = this.#beganAtMs + settings.budgetWaitTimeoutMs;
  }

  /** Takes the grant that the budget could not give at once, or another reason to wait. */
  hear(answer: Granted | Waiting): void {
    // Signals of a budget have no order, and may come late.
    if (answer.sendNumber !== this.#sendNumber) return;
    if (answer.kind === 'granted' && grantName(answer) === this.#spent) return;
    const isOutdated = this.#answer?.kind === 'granted' || this.#fullInARow > 0;
    if (isOutdated && answer.kind === 'waiting') return;
    this.#answer = answer;
    // The server may repeat an ask for long, and a watch for rest may take long. No watch after a send waits for this.
    const { state } = this.#standing;
    if (answer.kind === 'granted' && state !== 'polling' && state !== 'reconciling') this.#interrupt();
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#interrupt();
  }

  /** Reads the job, or asks the budget, now. A watch forgets since when it has seen an end, so too many are ignored. */
  pollNow(): void {
    this.wake();
    if (this.#standing.state !== 'polling') return this.#interrupt();
    const nowMs = this.port.nowMs();
    const neededMs = LONGEST_CONFIRMATION_MS + 2 * this.settings.prLinkGraceMs;
    const untilMs = Math.max(this.#watchedUntilMs, nowMs) + neededMs;
    if (untilMs > nowMs + POLLS_IN_A_ROW * neededMs) return;
    this.#watchedUntilMs = untilMs;
    // If a task that told of the end is undone, the watch must end the same way, and not be stopped.
    void this.port.nextTask().then(() => this.#interrupt());
  }

  /** Asks the budget again, if the follow-up waits in line: the budget may have been replaced. */
  wake(): void {
    this.#isWoken = true;
  }

  /** Why an operator's word about the delivery is refused; `undefined` if it is accepted. */
  refusalOfWord(word: unknown): string | undefined {
    if (!resolveWords.some((known) => known === word)) {
      return `resolveDelivery: must be ${resolveWords.join(' or ')} (given ${JSON.stringify(word)})`;
    }
    const { state } = this.#standing;
    if (state !== 'reconciling') return `resolveDelivery: the follow-up must be reconciling (it is ${state})`;
    return this.#isWordDue ? undefined : 'resolveDelivery: it has already been decided what becomes of the message';
  }

  /** An operator says whether the message was delivered. */
  resolveDelivery(word: ResolveWord): void {
    this.#operatorWord = word;
    this.#isWordDue = false;
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
   * Sees the follow-up through to its end.
   *
   * @throws Failed
   */
  async run(): Promise<FollowUpResult> {
    try {
      let result: FollowUpResult | undefined;
      // A run that replaces the one that had the turn asks whether it is still its own.
      while (!result) result = await this.#watchTurn(await this.#deliver());
      await this.port.tellBudget({ kind: 'end', lastTurn: fingerprint(result.job) });
      this.#show(endOf(result));
      return result;
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      await this.port.nextTask();
      const turn = this.#turnUntilMs === undefined ? {} : { turnUntilMs: this.#turnUntilMs };
      await this.port.tellBudget({ kind: 'end', ...turn });
      this.#show(endOf(error));
      throw error;
    }
  }

  /** Sends until the message counts as delivered. */
  async #deliver(): Promise<Delivery> {
    const { port } = this;
    for (let notSentInARow = 0; ;) {
      const slot = await this.#getSlot();
      const { answer } = slot;
      const isGranted = answer.kind === 'granted';
      if (!isGranted) {
        this.#sendNumber = answer.sendNumber;
        const isOnlySend = answer.isSameMessage && answer.remembersAll;
        if (isOnlySend && answer.runId === port.runId && !mayHaveArrived(answer.outcome)) this.#isInDoubt = false;
        // Nobody says how the sends before the last one ended.
        if (answer.sendNumber > 1) this.#isInDoubt = true;
        const isUndone = answer.outcome !== null && isUndelivered(answer.outcome);
        // A budget that was reset may have granted again what it does not remember, and nobody was there.
        const isForgotten = this.#isInDoubt && !answer.remembersAll && answer.grantedTo !== port.runId;
        if (isUndone ? isForgotten : !answer.isLatest) throw this.#closed(answer);
      }
      const sent: SendResult = isGranted
        ? await this.#send(answer, slot)
        : { grant: '', outcome: answer.outcome ?? 'unknown' };
      const { outcome } = sent;
      if (outcome === 'foreign') {
        // Another run of this follow-up may have used the grant.
        this.#isInDoubt = true;
        continue;
      }
      const nowMs = port.nowMs();
      if (isGranted) await this.#settle(answer, outcome, sent);
      if (outcome === 'rejected') throw this.#rejected(sent);
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
      if (notSentInARow > 0) {
        const { refusal: waitReason = 'slot' } = sent;
        const longestMs = waitReason === 'slot' ? LONGEST_BACKOFF_MS : LONGEST_REFUSED_MS;
        const waitMs = this.#backoffMs(notSentInARow, longestMs);
        this.#show({ state: stateOf(waitReason), waitReason }, { nextTryAt: iso(port.nowMs() + waitMs) });
        await this.#pause(waitMs, this.#patienceEndsMs);
      }
    }
  }

  /** Waits until the job takes messages, then for a slot. */
  async #getSlot(): Promise<Slot> {
    const { port, settings } = this;
    const { projectId, jobId, lane, prompt, whenActive } = settings;
    const { mayHaveSent, startedAtMs } = port;
    const messageTag = hash64(prompt);
    const order = () => ({
      projectId,
      jobId,
      whenActive,
      isInDoubt: this.#isInDoubt,
      runId: port.runId,
      ask: { sendNumber: this.#sendNumber, lane, messageTag, mayHaveSent, startedAtMs },
    });
    this.#facts.waitsUntil = iso(this.#patienceEndsMs);
    for (let notFoundInARow = 0, unansweredInARow = 0, deniedInARow = 0; ;) {
      this.#checkPatience();
      const pushed = this.#answer;
      this.#answer = undefined;
      if (pushed?.kind === 'granted' && pushed.sendNumber === this.#sendNumber) return { answer: this.#take(pushed) };
      this.#isWoken = false;
      this.#isInterrupted = false;
      const asking = port.askForSlot(order(), this.#patienceEndsMs, ({ reason, message }) => {
        this.#noteError(message);
        this.#show({ state: 'blocked', waitReason: knownReason(reason) ?? 'service' });
      });
      this.#stop = () => asking.stop();
      const asked = await asking.result;
      unansweredInARow = asked || this.#isInterrupted ? 0 : unansweredInARow + 1;
      if (unansweredInARow > 0) await this.#pause(this.#backoffMs(unansweredInARow), this.#patienceEndsMs);
      if (!asked) continue;
      if ((asked.kind === 'atWork' || asked.kind === 'archived') && asked.answer) {
        this.#take(asked.answer);
        if (asked.answer.kind === 'granted') await this.#giveBack(asked.answer);
      }
      notFoundInARow = asked.kind === 'notFound' ? notFoundInARow + 1 : 0;
      switch (asked.kind) {
        case 'archived':
          this.#see(asked.job);
          throw this.#unsentFailure(FailureType.JobArchived, 'The job was archived before the message was sent');
        case 'notFound':
          if (notFoundInARow >= NOT_FOUND_LIMIT) throw this.#notFound(asked.message, this.#unsent());
          await this.#pause(1_000 * notFoundInARow, this.#patienceEndsMs);
          break;
        case 'notServed': {
          const details = { issues: [{ field: 'projectId', message: asked.message }] };
          const message = `Invalid input: projectId: ${asked.message}`;
          throw new Failed(FailureType.InvalidInput, message, this.#unsent(), details);
        }
        case 'atWork':
          // Replicas of the service may disagree for long.
          deniedInARow = (await this.#waitForRest(asked.job)) ? 0 : deniedInARow + 1;
          if (deniedInARow > 1) await this.#pause(this.#backoffMs(deniedInARow), this.#patienceEndsMs);
          break;
        case 'asked': {
          const { baseline, refusal, answer: first } = asked;
          this.#noteError(refusal);
          const answer = await this.#awaitGrant(first);
          if (answer) return { answer, ...(answer === first && baseline && { baseline }) };
        }
      }
    }
  }

  /** Waits for the grant. Returns `undefined` if it is time to ask again. */
  async #awaitGrant(first: Answer): Promise<Granted | Known | undefined> {
    const { port } = this;
    for (let answer = first; ;) {
      if (answer.kind === 'known') return answer;
      if (answer.kind === 'ended') {
        throw new Failed(FailureType.Closed, 'The budget has already recorded the end of this follow-up', 'unknown');
      }
      if (answer.kind === 'otherMessage') {
        const message = 'The key was already used for another message; use a different key';
        throw new Failed(FailureType.Closed, message, this.#unsent());
      }
      if (answer.sendNumber !== this.#sendNumber) return undefined;
      this.#take(answer);
      if (answer.kind === 'granted') {
        if (!this.#isCancelled) return answer;
        await this.#giveBack(answer);
        return undefined;
      }
      const waitMs = Math.min(this.#askAgainMs(answer), this.#patienceEndsMs - port.nowMs());
      this.#showWaiting(answer, port.nowMs() + waitMs);
      const isOver = () => this.#answer !== undefined || this.#isCancelled || this.#isWoken;
      await port.condition(isOver, Math.max(1, waitMs));
      if (this.#answer === undefined || this.#isCancelled) return undefined;
      answer = this.#answer;
      this.#answer = undefined;
    }
  }

  /**
   * Only the budget knows that no earlier run sent: it gives no place to one that may have. An answer to another run says
   * nothing, because a reset run replays what its predecessor was answered.
   */
  #take<A extends Granted | Waiting | Full>(answer: A): A {
    if (answer.runId === this.port.runId) this.#isInDoubt &&= answer.sendNumber > 1;
    return answer;
  }

  #askAgainMs(answer: Waiting | Full): number {
    this.#fullInARow = answer.kind === 'full' ? this.#fullInARow + 1 : 0;
    if (answer.kind === 'full') {
      const waitMs = Math.min(this.#longestMs(LONGEST_FULL_MS), answer.retryMs * 2 ** (this.#fullInARow - 1));
      return waitMs * (1 + this.port.random());
    }
    const nowMs = this.port.nowMs();
    const { expectedAtMs = answer.reason === 'counting' ? nowMs : Infinity } = answer;
    return Math.max(
      this.#longestMs(ASK_SOON_MS),
      Math.min(this.#longestMs(ASK_AGAIN_MS), expectedAtMs + ASK_SOON_MS - nowMs),
    );
  }

  /** Doubles each time. */
  #backoffMs(times: number, longestMs = LONGEST_BACKOFF_MS): number {
    return Math.min(this.#longestMs(longestMs), 500 * 2 ** times);
  }

  #longestMs(ms: number): number {
    return Math.max(ms, (this.port.nowMs() - this.#beganAtMs) * LONG_WAIT_SHARE);
  }

  async #send(grant: Granted, { baseline }: Omit<Slot, 'answer'>): Promise<SendResult> {
    const { projectId, jobId, prompt, whenActive } = this.settings;
    const { runId, sendNumber, grantedAtMs, leaseMs } = grant;
    this.#spent = grantName(grant);
    // A word is about one send.
    this.#operatorWord = undefined;
    const order = { grant: { runId, sendNumber, grantedAtMs, leaseMs }, ...(baseline && { baseline }) };
    // Before the send: a budget that starts afresh finds whoever may have sent by its state.
    this.#show({ state: 'sending' });
    return this.port.sendMessage({ projectId, jobId, prompt, whenActive, ...order });
  }

  /** Waits until the job works on no other message. Returns `false` if the first poll shows it at rest. */
  async #waitForRest(job: AgentJob): Promise<boolean> {
    const { port } = this;
    this.#see(job);
    const isGranted = () => this.#answer?.kind === 'granted';
    const turn = { baseline: job, baselineAtMs: 0, arrivedByMs: 0, runId: port.runId };
    const standing = { state: 'waiting-for-job', waitReason: 'job-busy' } as const;
    const end = await this.#watch('rest', turn, this.#patienceEndsMs, standing, { isOver: isGranted });
    // It may have a place in line from an earlier ask.
    if (this.#answer?.kind === 'granted') await this.#giveBack(this.#take(this.#answer));
    if (end?.kind === 'deadline') await this.#pause(LONGEST_BACKOFF_MS, this.#patienceEndsMs);
    return end?.kind !== 'rest' || end.seen.polls > 1;
  }

  /** Finds out whether the message was delivered. Returns `undefined` if it is to be sent again. */
  async #reconcile(sent: Delivery, why: string | undefined): Promise<Delivery | 'foreign' | undefined> {
    const { settleTimeMs, onUnknownDelivery } = this.settings;
    const { port } = this;
    this.#noteError(why);
    const { turn } = sent;
    const deadlineMs = turn.arrivedByMs + settleTimeMs;
    this.#facts.waitsUntil = iso(deadlineMs);
    const isOver = () => this.#operatorWord !== undefined;
    this.#isWordDue = true;
    const end = await this.#watch('evidence', turn, deadlineMs, { state: 'reconciling' }, { isOver });
    this.#isWordDue = false;
    if (end?.kind === 'foreign') return this.#askWhoHasTurn(sent);
    const word = this.#operatorWord;
    this.#operatorWord = undefined;
    if (end?.kind === 'evidence') {
      const arrivedByMs = Math.min(turn.arrivedByMs, port.nowMs());
      return { ...sent, turn: { ...turn, arrivedByMs }, observedActive: isAtWork(end.job) };
    }
    if (this.#isCancelled) {
      throw new Failed(FailureType.Cancelled, 'Cancelled while the delivery was unknown', 'unknown');
    }
    if (word === 'sent' || (!word && onUnknownDelivery === 'assumeSent')) return { ...sent, kind: 'assumed' };
    if (word === 'notSent' || onUnknownDelivery === 'resend') {
      this.#facts.earlierSendUnknown = true;
      // The time for the first send may be over.
      if (word) this.#patienceEndsMs = Math.max(this.#patienceEndsMs, port.nowMs() + this.settings.budgetWaitTimeoutMs);
      return undefined;
    }
    const message = `Nobody can tell whether the message was delivered${why === undefined ? '' : `: ${why}`}`;
    throw new Failed(FailureType.DeliveryUnknown, message, 'unknown');
  }

  /** Watches the job to the end of the message's turn. Returns `undefined` if another run has the turn. */
  async #watchTurn(sent: Delivery): Promise<FollowUpResult | undefined> {
    const { projectId, jobId, jobTimeoutMs } = this.settings;
    const { kind: delivery, sentAtMs, turn, observedActive } = sent;
    const deadlineMs = sentAtMs + jobTimeoutMs;
    Object.assign(this.#facts, { delivery, sentAt: iso(sentAtMs), waitsUntil: iso(deadlineMs) });
    const end = await this.#watch('end', turn, deadlineMs, { state: 'polling' }, { observedActive });
    const delivered = delivery === 'assumed' ? 'unknown' : 'yes';
    if (end?.kind === 'ended') {
      const { job, seen } = end;
      this.#see(job, true);
      const prLink = job.prLink ?? null;
      return {
        ...{ projectId, jobId, status: job.status, prLink },
        prLinkChanged: isLinkNew(job, turn),
        ...{ delivery, observedActive: seen.observedActive },
        ...{ sentAt: iso(sentAtMs), finishedAt: iso(this.port.nowMs()), polls: this.#facts.polls, job },
      };
    }
    if (end?.kind === 'foreign') return void this.#askWhoHasTurn(sent);
    if (end?.kind === 'gone') throw this.#notFound(end.message, delivered);
    if (this.#isCancelled) throw new Failed(FailureType.Cancelled, 'Cancelled after the send', delivered);
    throw new Failed(FailureType.JobTimeout, 'The job did not end in time', delivered);
  }

  /** A message that another run sent is past the wait for a slot: the budget is asked for as long as the job may take. */
  #askWhoHasTurn({ sentAtMs }: Delivery): 'foreign' {
    const untilMs = Math.max(sentAtMs + this.settings.jobTimeoutMs, this.port.nowMs() + SHORTEST_ASK_MS);
    this.#patienceEndsMs = Math.max(this.#patienceEndsMs, untilMs);
    return 'foreign';
  }

  /** Watches until there is an end. Returns `undefined` if the follow-up was cancelled, or if `isOver()`. */
  async #watch(
    until: WatchGoal,
    turn: TurnToWatch,
    deadlineMs: number,
    standing: FollowUpStanding,
    { isOver = (): boolean => false, observedActive = false } = {},
  ): Promise<WatchResult | undefined> {
    const { projectId, jobId, poll, settleTimeMs, prLinkGraceMs } = this.settings;
    const { port } = this;
    const order = { projectId, jobId, until, ...turn, poll, settleTimeMs, prLinkGraceMs, deadlineMs };
    let trouble: string | null = null;
    let seen: Seen | undefined = observedActive ? { ...firstSeen(order, port.nowMs()), observedActive } : undefined;
    this.#show(standing);
    for (let stops = 0; !this.#isCancelled && !isOver();) {
      this.#isInterrupted = false;
      const watch = port.watchJob({ ...order, trouble, ...(seen && { seen }) });
      this.#stop = () => watch.stop();
      const end = await watch.result;
      stops = end || this.#isInterrupted ? 0 : stops + 1;
      if (!end) {
        // After `pollNow`, or when an operator ends the activity, the job is read at once. Repeated endings back off.
        seen = { ...(seen ?? firstSeen(order, port.nowMs())), nextPollAt: iso(port.nowMs()) };
        if (stops > 1) await this.#pause(this.#backoffMs(stops), deadlineMs);
        continue;
      }
      ({ seen } = end);
      if (seen.job) this.#see(seen.job, until === 'end' && seen.observedActive);
      this.#noteError(seen.lastError);
      if (end.kind !== 'trouble') {
        // The library adds the polls of a watch that goes on.
        if (until !== 'rest') this.#facts.polls += seen.polls;
        return end;
      }
      ({ trouble } = end);
      this.#showTrouble(trouble, standing);
    }
    return undefined;
  }

  /** A follow-up that may have sent never shows `blocked`: a budget that starts afresh finds it by its state. */
  #showTrouble(trouble: string | null, standing: FollowUpStanding): void {
    if (trouble === null) return this.#show(standing);
    const waitReason = knownReason(trouble) ?? 'service';
    if (standing.state === 'polling' || standing.state === 'reconciling') this.#show({ ...standing, waitReason });
    else this.#show({ state: 'blocked', waitReason });
  }

  #showWaiting(answer: Waiting | Full, againAtMs: number): void {
    const { reason } = answer;
    const standing = { state: stateOf(reason), waitReason: reason };
    if (answer.kind === 'full') return this.#show(standing, { nextTryAt: iso(againAtMs) });
    const { position, expectedAtMs, pause } = answer;
    const expectedSendAt = expectedAtMs === undefined ? undefined : iso(expectedAtMs);
    this.#show(standing, defined({ position: position > 0 ? position : undefined, expectedSendAt, pause }));
  }

  #show(standing: FollowUpStanding, place: Place = {}): void {
    this.#standing = { ...standing, ...place };
    if (isEndState(standing.state)) delete this.#facts.waitsUntil;
    this.port.show(this.progress());
  }

  #see(job: AgentJob, isOwnTurn = false): void {
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
    if (statusCode === 404) return this.#notFound(message, this.#unsent());
    return new Failed(
      FailureType.MessageRejected,
      `The service refused the message: ${message}`,
      this.#unsent(),
      details,
    );
  }

  /** A message was let through that this run knows nothing more of. */
  #closed({ grantedTo, outcome, isSameMessage }: Known): Failed {
    const ofOwn = outcome === 'sent' ? 'yes' : outcome === 'rejected' ? this.#unsent() : 'unknown';
    const message =
      grantedTo === ''
        ? 'The budget does not remember whether an earlier run of this follow-up sent the message'
        : 'The key was used before, and the job may have gone on to another message';
    return new Failed(FailureType.Closed, message, isSameMessage ? ofOwn : 'unknown');
  }

  #checkPatience(): void {
    if (this.#isCancelled) throw this.#unsentFailure(FailureType.Cancelled, 'Cancelled before the message was sent');
    if (this.port.nowMs() < this.#patienceEndsMs) return;
    throw this.#unsentFailure(FailureType.BudgetWaitTimeout, 'The message could not be sent in time');
  }

  #unsentFailure(type: FailureType, message: string): Failed {
    const text = this.#isInDoubt ? `${message}; an earlier send of it may have been delivered` : message;
    return new Failed(type, text, this.#unsent());
  }

  /** Waits, but not beyond a cancel, an operator's word or `untilMs`. */
  async #pause(ms: number, untilMs: number): Promise<void> {
    const leftMs = untilMs - this.port.nowMs();
    if (leftMs <= 0) return;
    this.#isInterrupted = false;
    await this.port.condition(() => this.#isCancelled || this.#isInterrupted, Math.min(ms, leftMs));
  }

  /** Names the run of the grant: a reset run repeats what its predecessor told. */
  async #settle(grant: Granted, outcome: SendOutcome, why: Partial<SendResult> = {}): Promise<void> {
    const { runId, sendNumber } = grant;
    const { refusal, retryAfterMs } = why;
    const send = { kind: 'settle', runId, sendNumber, outcome, atMs: this.port.nowMs() } as const;
    await this.port.tellBudget({ ...send, ...defined({ refusal, retryAfterMs }) });
  }

  /**
   * A grant that is given back is never used. The next ask has the same number, so that the budget says what became of a
   * grant of another run.
   */
  async #giveBack(grant: Granted): Promise<void> {
    this.#answer = undefined;
    this.#spent = grantName(grant);
    await this.port.nextTask();
    await this.#settle(grant, 'notSent');
  }
}

/** The message may have been delivered. Nobody knows the job before a send that another run made. */
function deliveryOf(
  { outcome, baseline, job }: SendResult,
  { answer, baseline: beforeAsk }: Slot,
  nowMs: number,
): Delivery {
  const isGranted = answer.kind === 'granted';
  const before = isGranted ? (baseline ?? beforeAsk ?? {}) : {};
  const knownAtMs = isGranted ? nowMs : answer.outcomeAtMs;
  const isSent = outcome === 'sent';
  return {
    kind: isSent ? 'sent' : 'inferred',
    sentAtMs: isSent ? knownAtMs : answer.grantedAtMs,
    turn: {
      baseline: before,
      baselineAtMs: knownAtMs,
      arrivedByMs: isSent ? knownAtMs : answer.overAtMs,
      ...(isGranted && answer.lastTurn && { lastTurn: answer.lastTurn }),
      runId: answer.runId,
    },
    observedActive: isSent && job !== undefined && isAtWork(job) && isTerminalStatus(before.status),
  };
}

function stateOf(reason: WaitReason): 'waiting-for-budget' | 'waiting-for-job' | 'blocked' {
  if (reason === 'slot') return 'waiting-for-budget';
  return reason === 'job-busy' ? 'waiting-for-job' : 'blocked';
}
