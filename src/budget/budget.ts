import type { TakeReply } from '../contract/index.js';
import {
  type Ask,
  type AskReply,
  type BudgetSettings,
  type EndReport,
  type FollowUpReport,
  type Granted,
  mayHaveArrived,
  type OutcomeReport,
  type Waiting,
} from '../protocol/index.js';
import { book, bookSend, type ListedFollowUp } from './counting.js';
import { grantNext } from './grants.js';
import { forgetLimit, noteTurnEnded } from './learned-limit.js';
import { enterLine, leaveLine, LINE_CAPACITY, type LineCapacity, lineOf } from './line.js';
import { changesMs } from './pace.js';
import { learnFromOutcome, learnFromRead, resume } from './pauses.js';
import { delayedUntilMs } from './refusals.js';
import { claimGrant, recall, recordNotSent, recordOutcome } from './sends.js';
import { expireSlots, lengthenWindow, slotEnds, spendSlot } from './slots.js';
import { type BudgetState, isSameSend, latestSendOf } from './state.js';
import { take } from './take.js';
import { callBack, forgetTurnedAway, turnAway } from './turned-away.js';
import { blockingOwners, closeTurn, endTurn, expireTurns, giveForgottenTurn, ownersToCheck } from './turns.js';
import { newReasons, waitingReply } from './waiting.js';

/** A signal to a follow-up. Without a reply it is a wake-up: if that fails, the follow-up does not run. */
export interface FollowUpSignal {
  workflowId: string;
  reply?: Granted | Waiting;
}

/** New settings. Missing ones stay unchanged. */
export type SettingsChange = Partial<Omit<BudgetSettings, 'marginMs'>>;

/**
 * The order in which the rules of a project's budget apply; each rule has its own module. All are pure, with the time as
 * an argument. {@link advance} follows every event; it depends on state and time alone: a replay may deliver an event in
 * a later task, and must decide the same.
 */
export class Budget {
  #signals: FollowUpSignal[] = [];

  constructor(
    readonly state: BudgetState,
    private readonly capacity: LineCapacity = LINE_CAPACITY,
  ) {}

  /** Returns the pending signals and clears them. */
  flushSignals(): FollowUpSignal[] {
    return this.#signals.splice(0);
  }

  ask(nowMs: number, ask: Ask): AskReply {
    const { state } = this;
    const { workflowId, maxLimit, drainMs } = ask;
    this.#expire(nowMs);
    Object.assign(state, { maxLimit, drainMs });
    const recalled = recall(state, ask);
    if (recalled) return recalled;
    forgetTurnedAway(state, workflowId);
    const { waiter, isNew, full } = enterLine(state, this.capacity, ask, nowMs);
    learnFromRead(state, waiter, ask, nowMs);
    const grants = this.advance(nowMs);
    // The reply replaces the signal, unless this may be a late copy of an ask, whose reply nobody receives.
    if (isNew) this.#signals = this.#signals.filter((signal) => signal.workflowId !== workflowId || !signal.reply);
    const granted = grants.find((grant) => grant.workflowId === workflowId);
    if (granted) return claimGrant(latestSendOf(state, workflowId), granted.reply);
    if (full) {
      leaveLine(state, workflowId);
      if (full.reason === 'job-busy') turnAway(state, ask);
      return full;
    }
    return waitingReply(state, waiter, lineOf(state, nowMs), nowMs);
  }

  receive(nowMs: number, report: FollowUpReport): void {
    this.#expire(nowMs);
    if (report.kind === 'outcome') this.#receiveOutcome(nowMs, report);
    else this.#receiveEnd(nowMs, report);
    this.advance(nowMs);
  }

  #receiveOutcome(nowMs: number, report: OutcomeReport): void {
    const { workflowId, runId, sendNumber, outcome } = report;
    const { state } = this;
    // After a reset of the budget, an ask may be in line again although its send is over.
    leaveLine(state, workflowId, { runId, upTo: sendNumber });
    const latest = latestSendOf(state, workflowId);
    const grant = state.grants.find((each) => isSameSend(each, report));
    const atMs = Math.min(nowMs, Math.max(report.atMs, grant?.grantedAtMs ?? 0));
    const isAwaited = latest && latest.outcome === undefined && isSameSend({ workflowId, ...latest }, report);
    // Granted by an earlier budget, or in a part of this one's past that a reset undid.
    const isForgotten = !grant && (latest?.runId !== runId || latest.sendNumber < sendNumber);
    const isNewest = sendNumber >= (latest?.sendNumber ?? 0);
    if (outcome === 'notSent') recordNotSent(state, report, atMs);
    else {
      recordOutcome(state, report, outcome, atMs);
      if (grant) spendSlot(state, grant, outcome === 'unknown' ? grant.overAtMs : Math.min(atMs, grant.overAtMs));
      else if (isForgotten) this.#receiveForgottenSend(nowMs, report, atMs);
    }
    // A reset run repeats its predecessor's reports, which teach nothing new.
    if (isAwaited) learnFromOutcome(state, report, latest, nowMs);
    else if (isForgotten && isNewest) learnFromOutcome(state, report, undefined, nowMs);
  }

  #receiveForgottenSend(nowMs: number, report: OutcomeReport, atMs: number): void {
    const { workflowId, outcome } = report;
    const { state } = this;
    // It is not known how long the bytes may still arrive, so the latest worker's drain applies.
    const sentByMs = outcome === 'unknown' ? Math.max(atMs, nowMs + state.drainMs) : atMs;
    bookSend(state, report, outcome, { atMs: sentByMs });
    if (mayHaveArrived(outcome)) giveForgottenTurn(state, workflowId, atMs);
  }

  #receiveEnd(nowMs: number, report: EndReport): void {
    const { workflowId, runId } = report;
    const { state } = this;
    // The run that replaced it may already have the place.
    leaveLine(state, workflowId, { runId });
    forgetTurnedAway(state, workflowId);
    const unused = state.grants.filter((grant) => grant.workflowId === workflowId && grant.runId === runId);
    for (const grant of unused) recordNotSent(state, grant, nowMs);
    const latest = latestSendOf(state, workflowId);
    if (latest?.runId === runId) {
      latest.ended = true;
      delete latest.refusals;
    }
    if (endTurn(state, report, nowMs)) noteTurnEnded(state.pace.limit);
  }

  /** Handles a signal whose follow-up had ended without a report. */
  noteClosed(nowMs: number, { workflowId, reply }: FollowUpSignal): void {
    const { state } = this;
    this.#expire(nowMs);
    const latest = latestSendOf(state, workflowId);
    // A wake-up concerns no place, and a run that started since may have one.
    if (reply) leaveLine(state, workflowId, { runId: reply.runId });
    forgetTurnedAway(state, workflowId);
    if (reply?.kind === 'granted' && !latest?.isClaimed) recordNotSent(state, { workflowId, ...reply }, nowMs);
    closeTurn(state, workflowId, nowMs);
    this.advance(nowMs);
  }

  /** See {@link book}. */
  book(nowMs: number, sends: readonly ListedFollowUp[], more: Parameters<typeof book>[2] = {}): void {
    this.#expire(nowMs);
    this.#wakeAll(book(this.state, sends, more, nowMs));
  }

  /** Wakes follow-ups without a place in line, which may have had one in an earlier budget. */
  wake(workflowIds: readonly string[]): void {
    const notified = new Set([...this.state.waiters, ...this.#signals].map(({ workflowId }) => workflowId));
    // Wakes all of them, because those that had a place ask again by themselves only after hours.
    this.#wakeAll(workflowIds.filter((workflowId) => !notified.has(workflowId)));
  }

  /** Changes settings. Slots in use above a new limit stay in use until they expire. */
  setLimit(nowMs: number, change: SettingsChange): void {
    const { state } = this;
    this.#expire(nowMs);
    lengthenWindow(state, change.windowMs ?? 0, nowMs);
    state.settings = { ...state.settings, ...change };
    forgetLimit(state.pace.limit);
    this.advance(nowMs);
  }

  /**
   * Takes slots for messages that other software sends: all or none. Those in line keep theirs. A key that has taken
   * slots gets the same reply again.
   */
  take(nowMs: number, request: { key: string; count: number }): TakeReply {
    this.#expire(nowMs);
    return take(this.state, request, nowMs);
  }

  pause(nowMs: number, pause: { untilMs?: number; note?: string }): void {
    this.state.operatorPause = { ...pause, sinceMs: nowMs };
    this.advance(nowMs);
  }

  /** Ends the operator's pause, and tries at once what the service has refused. */
  resume(nowMs: number): void {
    resume(this.state, nowMs);
    this.advance(nowMs);
  }

  /** Grants what can be granted now, and informs the front of the line of new reasons to wait. Returns the grants. */
  advance(nowMs: number): { workflowId: string; reply: Granted }[] {
    const { state } = this;
    this.#expire(nowMs);
    const grants = [];
    for (let grant = grantNext(state, nowMs); grant; grant = grantNext(state, nowMs)) grants.push(grant);
    this.#signals.push(...grants);
    this.#wakeAll(ownersToCheck(state, nowMs));
    this.#wakeAll(callBack(state, this.capacity.forJob, nowMs));
    this.#signals.push(...newReasons(state, nowMs));
    return grants;
  }

  #wakeAll(workflowIds: readonly string[]): void {
    this.#signals.push(...workflowIds.map((workflowId) => ({ workflowId })));
  }

  /** Applies what time alone changes. Runs before every event, so that no result depends on when the previous one came. */
  #expire(nowMs: number): void {
    expireSlots(this.state, nowMs);
    expireTurns(this.state, nowMs);
  }

  /** When something changes by itself that a follow-up waits for, or, for people, when a pause ends. */
  nextChangeMs(nowMs: number): number | undefined {
    const { state } = this;
    const { waiters, grants, turns, operatorPause, pace, checkOwnersAtMs } = state;
    // For people and metrics, the end of a pause is news even if nobody waits.
    const pauseEndsMs = [operatorPause?.untilMs ?? Infinity, pace.pause?.untilMs ?? Infinity];
    const waiterTimes = () => [
      ...changesMs(pace),
      ...slotEnds(state),
      ...grants.flatMap(({ grantedAtMs, leaseMs, overAtMs }) => [grantedAtMs + leaseMs, overAtMs]),
      ...waiters.flatMap((waiter) => [turns[waiter.job]?.untilMs ?? Infinity, delayedUntilMs(waiter)]),
      blockingOwners(state).length > 0 ? checkOwnersAtMs : Infinity,
    ];
    const times = [...pauseEndsMs, ...(waiters.length > 0 ? waiterTimes() : [])];
    const next = times.reduce((first, ms) => (ms > nowMs && ms < first ? ms : first), Infinity);
    return Number.isFinite(next) ? next : undefined;
  }
}
