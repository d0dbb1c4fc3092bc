import { defined, hash64, iso, wasResetAfter } from '../common/index.js';
import { type AgentJob, FailureType } from '../contract/index.js';
import { type AskReply, type EarlierSend, type Full, type Granted, toReason, type Waiting } from '../protocol/index.js';
import { standingOf } from './display.js';
import { Failed, jobNotFound, unsent } from './failed.js';
import { grantName, type SlotResult } from './port.js';
import type { StepContext } from './step-context.js';
import { watchUntil } from './watch-until.js';

/** How a wait for a slot ends: with a grant, or with the budget's record of an earlier send of the message. */
export interface SlotWaitEnd {
  reply: Granted | EarlierSend;
  /** The job just before the ask. Missing if the send is to read it. */
  jobBefore?: AgentJob;
}

/**
 * A waiting follow-up asks again after this time, because a failover may have lost its grant. A new budget wakes it.
 */
const ASK_AGAIN_MS = 21_600_000;
/** Shortest such time, for an overdue grant. */
const ASK_SOON_MS = 180_000;
/** Without a place in line, it asks again after this time, and up to twice that. */
const FULL_RETRY_MS = 900_000;

/** The step that waits for a slot, and until the job accepts messages. */
export class SlotWait {
  #sendNumber = 1;
  /** {@link grantName} of the last grant that was used or returned. No grant is used twice. */
  #usedGrant = '';
  #signalledReply: Granted | Waiting | undefined;
  #isWoken = false;
  #hasReply = false;
  #isTurnedAway = false;

  constructor(private readonly context: StepContext) {}

  /** Whether the budget has replied to an ask. */
  get hasReply(): boolean {
    return this.#hasReply;
  }

  /** Receives a grant that was not immediate, or a new reason to wait. */
  receive(reply: Granted | Waiting): void {
    // A budget's signals are unordered and may come late.
    if (reply.sendNumber !== this.#sendNumber) return;
    if (reply.kind === 'granted' && grantName(reply) === this.#usedGrant) return;
    const isOutdated = this.#signalledReply?.kind === 'granted' || this.#isTurnedAway;
    if (isOutdated && reply.kind === 'waiting') return;
    this.#signalledReply = reply;
    // An ask that the server repeats, or a watch for rest, can take a long time. After a send, a late grant must not
    // stop the watch.
    const { waits, display } = this.context;
    const { state } = display;
    if (reply.kind === 'granted' && state !== 'polling' && state !== 'reconciling') waits.interrupt();
  }

  /** Makes a follow-up in line ask again, because the budget may have been replaced. */
  wake(): void {
    this.#isWoken = true;
  }

  /** The next slot is for another send, because the last one did not, or may not have, delivered the message. */
  beginNextSend(): void {
    this.#sendNumber += 1;
  }

  /**
   * Waits for a slot, or for the budget's reply that none is needed.
   *
   * @throws Failed
   */
  async wait(): Promise<SlotWaitEnd> {
    const { waits, display } = this.context;
    display.facts.waitsUntil = iso(waits.patienceEndsMs);
    for (let wasContradicted = false; ;) {
      this.#checkPatience();
      const signalled = this.#takeSignalledReply();
      if (signalled?.kind === 'granted' && signalled.sendNumber === this.#sendNumber) {
        this.#noteReply(signalled);
        return this.#use({ reply: signalled });
      }
      this.#isWoken = false;
      const asked = await this.#ask();
      if (!asked) continue;
      const next = await this.#follow(asked);
      if (typeof next === 'object') return this.#use(next);
      if (next === 'ask-again') continue;
      const isContradicted = await this.#waitForRest(next);
      // Replicas of the service may disagree for a long time.
      if (isContradicted && wasContradicted) await waits.sleep(waits.backoffMs());
      wasContradicted = isContradicted;
    }
  }

  #checkPatience(): void {
    const { port, waits, doubt } = this.context;
    if (waits.isCancelled) throw unsent(doubt, FailureType.Cancelled, 'Cancelled before the message was sent');
    if (port.isHistoryFull()) {
      const message = 'The message could not be sent before the history of its workflow was full';
      throw unsent(doubt, FailureType.BudgetWaitTimeout, message);
    }
    if (port.nowMs() < waits.patienceEndsMs) return;
    throw unsent(doubt, FailureType.BudgetWaitTimeout, 'The message could not be sent in time');
  }

  #takeSignalledReply(): Granted | Waiting | undefined {
    const reply = this.#signalledReply;
    this.#signalledReply = undefined;
    return reply;
  }

  #use(end: SlotWaitEnd): SlotWaitEnd {
    const { reply } = end;
    if (reply.kind === 'granted') this.#usedGrant = grantName(reply);
    else this.#sendNumber = reply.sendNumber;
    return end;
  }

  async #ask(): Promise<SlotResult | undefined> {
    const { settings, port, display, waits, doubt } = this.context;
    const { projectId, jobId, lane, prompt, whenActive } = settings;
    const { runId, mayHaveSent, startedAtMs } = port;
    const ask = { sendNumber: this.#sendNumber, lane, messageTag: hash64(prompt), mayHaveSent, startedAtMs };
    const request = { projectId, jobId, whenActive, isInDoubt: doubt.exists, runId, ask };
    const { lastError } = display.facts;
    const asking = port.askForSlot(request, waits.patienceEndsMs, ({ reason, message }) => {
      display.noteError(message);
      display.show({ state: 'blocked', waitReason: toReason(reason) ?? 'service' });
    });
    const asked = await waits.waitFor(asking);
    // A trouble that is over does not hide why the message was refused before.
    if (asked && lastError) display.facts.lastError = lastError;
    return asked;
  }

  /** Returns the end of the wait, or `ask-again`, or why the job is to be watched until it rests. */
  async #follow(asked: SlotResult): Promise<SlotWaitEnd | 'ask-again' | 'job-busy' | 'service'> {
    const { display, doubt } = this.context;
    switch (asked.kind) {
      case 'archived':
        if (asked.reply) this.#noteReply(asked.reply);
        display.noteJob(asked.job);
        throw unsent(doubt, FailureType.JobArchived, 'The job was archived before the message was sent');
      case 'notFound':
        display.noteError(asked.message);
        return 'service';
      case 'asked': {
        const { jobBefore, unreadyJob, refusalMessage, reply: first } = asked;
        this.#hasReply = true;
        display.noteError(refusalMessage);
        if (unreadyJob) display.noteJob(unreadyJob);
        const reply = await this.#awaitGrant(first);
        if (typeof reply === 'string') return reply;
        return { reply, ...(reply === first && jobBefore && { jobBefore }) };
      }
    }
  }

  /** Waits for the grant. Returns `job-busy` if the job is to be watched. */
  async #awaitGrant(first: AskReply): Promise<Granted | EarlierSend | 'ask-again' | 'job-busy'> {
    const { port, display, waits, doubt } = this.context;
    for (let reply = first; ;) {
      if (reply.kind === 'earlierSend') return reply;
      if (reply.kind === 'ended') {
        throw new Failed(FailureType.Closed, 'The budget has already recorded the end of this follow-up', 'unknown');
      }
      if (reply.kind === 'otherMessage') {
        const message = 'The key was already used for another message; use a different key';
        throw new Failed(FailureType.Closed, message, doubt.delivered());
      }
      if (reply.sendNumber !== this.#sendNumber) return 'ask-again';
      this.#noteReply(reply);
      this.#isTurnedAway = reply.kind === 'full';
      // The end of a cancelled follow-up returns the slot.
      if (reply.kind === 'granted') return waits.isCancelled ? 'ask-again' : reply;
      if (reply.kind === 'waiting' && reply.isToWatch) return 'job-busy';
      const waitMs = Math.min(this.#askAgainMs(reply), waits.patienceEndsMs - port.nowMs());
      display.show(standingOf(reply.reason), linePositionOf(reply, port.nowMs() + waitMs));
      // The run before a reset may have reported its end, and its place in line is then lost.
      const { runId } = reply;
      const isOver = () =>
        this.#signalledReply !== undefined || waits.isCancelled || this.#isWoken || wasResetAfter(port, runId);
      await port.condition(isOver, Math.max(1, waitMs));
      const signalled = this.#takeSignalledReply();
      if (!signalled || waits.isCancelled) return 'ask-again';
      reply = signalled;
    }
  }

  #noteReply(reply: Granted | Waiting | Full): void {
    this.#hasReply = true;
    this.context.doubt.ruleOut(reply);
  }

  #askAgainMs(reply: Waiting | Full): number {
    const { port, waits } = this.context;
    if (reply.kind === 'full') return waits.stretchedMs(FULL_RETRY_MS) * (1 + port.random());
    const nowMs = port.nowMs();
    const { expectedAtMs = reply.reason === 'counting' ? nowMs : Infinity } = reply;
    const untilOverdueMs = expectedAtMs + ASK_SOON_MS - nowMs;
    return Math.max(waits.stretchedMs(ASK_SOON_MS), Math.min(waits.stretchedMs(ASK_AGAIN_MS), untilOverdueMs));
  }

  /**
   * Waits until the job is found and at rest. Returns whether that changed nothing: the first poll showed it, or the
   * time is over.
   */
  async #waitForRest(waitReason: 'job-busy' | 'service'): Promise<boolean> {
    const { port, waits, doubt } = this.context;
    const { patienceEndsMs: deadlineMs } = waits;
    const isOver = () => this.#signalledReply?.kind === 'granted';
    const goal = { until: 'rest', baseline: { job: {}, readByMs: 0 }, arrivedByMs: 0, runId: port.runId } as const;
    const end = await watchUntil(this.context, { ...goal, deadlineMs, standing: standingOf(waitReason), isOver });
    if (end?.kind === 'notFound') throw jobNotFound(end.message, doubt.delivered());
    if (!end) return false;
    const isContradicted = end.kind !== 'rest' || end.observation.polls <= 1;
    if (!isContradicted) waits.noteProgress();
    return isContradicted;
  }
}

function linePositionOf(reply: Waiting | Full, againAtMs: number) {
  const nextTryAt = iso(againAtMs);
  if (reply.kind === 'full') return { nextTryAt };
  const { position, expectedAtMs, pause } = reply;
  const expectedSendAt = expectedAtMs === undefined ? undefined : iso(expectedAtMs);
  return defined({ nextTryAt, position: position > 0 ? position : undefined, expectedSendAt, pause });
}
