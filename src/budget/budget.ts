import type { Refusal, SendOutcome, TakeAnswer, WaitReason } from '../contract/budget.js';
import { defined } from '../contract/defined.js';
import { iso } from '../contract/durations.js';
import type { ShownPause } from '../contract/follow-up.js';
import { type Lane, lanes } from '../contract/choices.js';
import {
  type Answer,
  type Ask,
  type BudgetEvent,
  type BudgetSettings,
  type End,
  type Full,
  type Granted,
  mayHaveArrived,
  refusalOf,
  type Settlement,
  type Waiting,
} from '../contract/protocol.js';
import { growLimit, learnLimit } from './learned-limit.js';
import {
  type BudgetState,
  followUpKey,
  type Grant,
  jobKey,
  type KnownSend,
  MIN_LAST_SENDS,
  type SendId,
  type Turn,
  type Waiter,
} from './state.js';

export interface Places {
  /** In total: ten hours of a budget of 100. */
  most: number;
  /** For one job. Further follow-ups watch the job instead. */
  mostForJob: number;
}
const PLACES: Places = { most: 1_000, mostForJob: 10 };
/** The batch lane's share of the places, which leaves some for interactive follow-ups. */
const BATCH_PLACES = 0.9;

/** Most sends in progress. Limits how many a crash leaves unknown, and how many a service refuses at once. */
const MAX_UNDER_WAY = 10;
/** How many at the front learn at once that their reason to wait has changed. Others learn it when they ask. */
const INFORMED = 20;
/** When a follow-up without a place asks again. A job whose turn is taken is soon at work, and is then watched. */
const CROWDED_RETRY_MS = 60_000;
const FULL_RETRY_MS = 900_000;
/** While interactive follow-ups wait, every tenth grant goes to the batch lane. */
const BATCH_EVERY = 10;
const MAX_LAST_SENDS = 1_000;
/** Pause after a refusal without Retry-After, and the shortest with it. It doubles after each refused probe. */
const FIRST_PAUSE_MS = 30_000;
const SHORTEST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 600_000;
/** This many consecutive refusals concern the project, even if each message was refused before. */
const MOST_REFUSED_ALONE = 4;
/** The first 429s of a message, up to this number, tell something about the project's limit. */
const MOST_LESSONS = 3;
/** Most consecutive probes by the message that a 429 refused. */
const FIRST_PROBES = 2;
/** How long after the last byte the job may still show the previous turn: the default of `settleTime`. */
const SETTLE_MS = 120_000;
/** An ended follow-up keeps its turn for lease, drain and settle time. Only a signal sent by hand can ask for more. */
const LONGEST_KEPT_TURN_MS = 14_400_000;
/** Interval at which follow-ups that block others' jobs are checked: one may have been terminated. */
const CHECK_OWNERS_MS = 600_000;

/** A message to a follow-up. Without an answer it is a wake-up: if that fails, the follow-up does not run. */
export interface Message {
  workflowId: string;
  answer?: Granted | Waiting;
}

/** A follow-up in Temporal's list that may have sent. */
export interface ListedSend {
  workflowId: string;
  isRunning: boolean;
  /** It is waiting: it has not sent, unless its state lags. */
  isWaiting?: boolean;
}

/** New settings. Missing ones stay unchanged. */
export type SettingsChange = Partial<Omit<BudgetSettings, 'marginMs'>>;

/**
 * The rules of a project's budget, pure, with the time as an argument. {@link advance} follows every event; it
 * depends on state and time alone: a replay may deliver an event in a later task, and must decide the same.
 */
export class Budget {
  #messages: Message[] = [];

  constructor(
    readonly state: BudgetState,
    private readonly places = PLACES,
  ) {}

  /** Messages in a window, up to the worker's maximum. */
  get configuredLimit(): number {
    return Math.min(this.state.settings.limit, this.state.maxLimit);
  }

  /** {@link configuredLimit}, lowered to what the service accepts. */
  get limit(): number {
    return Math.min(this.configuredLimit, this.state.learned?.limit ?? Infinity);
  }

  /** Returns the pending messages and clears them. */
  flushMessages(): Message[] {
    return this.#messages.splice(0);
  }

  ask(nowMs: number, ask: Ask): Answer {
    this.#expire(nowMs);
    Object.assign(this.state, { maxLimit: ask.maxLimit, drainMs: ask.drainMs });
    const recalled = this.#recall(ask);
    if (recalled) return recalled;
    const { workflowId, refusal, retryAfterMs } = ask;
    // The probe decides about a pause that has already begun.
    const isNew = !this.state.servicePause && !this.#isRefusedAlone(workflowId, refusal);
    if (refusal && isNew) this.#pauseFor(refusal, nowMs, retryAfterMs);
    const full = this.#enterLine(ask);
    this.advance(nowMs);
    // The answer replaces a pending signal.
    this.#messages = this.#messages.filter((message) => message.workflowId !== workflowId || !message.answer);
    const granted = this.#recall(ask);
    if (granted) return granted;
    if (full) this.#leaveLine(workflowId);
    if (full) return full;
    const waiter = this.state.waiters.find((each) => each.workflowId === workflowId);
    return waiter ? this.#standing(nowMs, waiter, this.line()) : { kind: 'ended' };
  }

  receive(nowMs: number, event: BudgetEvent): void {
    this.#expire(nowMs);
    if (event.kind === 'settle') this.#settle(nowMs, event);
    else this.#end(nowMs, event);
    this.advance(nowMs);
  }

  /** Handles a message whose follow-up had ended without notice. */
  missed(nowMs: number, { workflowId, answer }: Message): void {
    this.#expire(nowMs);
    const known = this.state.known[followUpKey(workflowId)];
    // A wake-up concerns no place, and a run that started since may have one.
    if (answer) this.#leaveLine(workflowId, answer.runId);
    if (answer?.kind === 'granted' && !known?.isTaken) this.#free({ workflowId, ...answer }, nowMs);
    const turn = this.state.turns[jobKey(workflowId)];
    if (turn?.owner === workflowId) turn.untilMs ??= Math.max(nowMs, known?.overAtMs ?? 0) + SETTLE_MS;
    this.advance(nowMs);
  }

  /**
   * Books sends that this budget does not remember, the oldest first, each as a send made now with an unknown outcome.
   *
   * @param more.others number of further sends, of which nothing is known
   * @param more.drainMs how long bytes of sends in progress may still arrive
   */
  book(nowMs: number, sends: readonly ListedSend[], more: { others?: number; drainMs?: number } = {}): void {
    const { state } = this;
    const { others = 0, drainMs = 0 } = more;
    const atMs = nowMs + drainMs;
    this.#expire(nowMs);
    state.spent.push(...Array.from({ length: others }, () => atMs));
    for (const { workflowId, isRunning } of sends) {
      const past = state.known[followUpKey(workflowId)];
      const wasReported = past?.outcome === 'sent';
      if (past?.outcome === 'rejected' || (wasReported && !isRunning)) continue;
      // Its lease is over, and the outcome of it or of a later send may never be reported again.
      state.grants = state.grants.filter((grant) => grant.workflowId !== workflowId);
      // A place in line may be older than a reset, and its send may have been made: the follow-up asks again.
      const waiter = state.waiters.find((each) => each.workflowId === workflowId);
      const sendNumber = Math.max(past?.sendNumber ?? 1, waiter?.sendNumber ?? 1);
      if (!wasReported)
        this.#bookSend(atMs, { workflowId, runId: '', sendNumber }, 'unknown', { waiter, listedAtMs: nowMs });
      if (waiter) this.#leaveLine(workflowId);
      if (waiter) this.#messages.push({ workflowId });
      const key = followUpKey(workflowId);
      const turn: Turn = { latest: key, ...state.turns[jobKey(workflowId)] };
      // The list does not show which of two follow-ups sent to a job last, because either may have been reset.
      if (turn.latest !== key) turn.latest = '';
      const isOthers = turn.owner !== undefined && turn.owner !== workflowId && turn.untilMs === undefined;
      if (isRunning || !isOthers) {
        turn.owner = workflowId;
        delete turn.runId;
        delete turn.untilMs;
        if (!isRunning) turn.untilMs = atMs + SETTLE_MS;
      }
      put(state.turns, jobKey(workflowId), turn);
    }
    state.isCounting = false;
  }

  /** Wakes follow-ups without a place in line, which may have had one in an earlier budget. */
  wake(workflowIds: readonly string[]): void {
    const known = new Set([...this.state.waiters, ...this.#messages].map(({ workflowId }) => workflowId));
    const lost = workflowIds.filter((workflowId) => !known.has(workflowId)).slice(0, this.places.most);
    this.#messages.push(...lost.map((workflowId) => ({ workflowId })));
  }

  /** Books all free slots as used, for an operator who does not trust the list of follow-ups. */
  assumeFull(nowMs: number): void {
    const free = Math.max(0, this.limit - this.#used());
    this.state.spent.push(...Array.from({ length: free }, () => nowMs));
  }

  /** Changes settings. Slots in use above a new limit stay in use until they expire. */
  setLimit(nowMs: number, change: SettingsChange): void {
    const { state } = this;
    const { windowMs = 0 } = change;
    this.#expire(nowMs);
    if (windowMs > state.settings.windowMs) {
      state.spent.push(...state.freed.splice(0));
      // The part of a longer window that it does not remember has to be counted.
      if (state.rememberedSinceMs > nowMs - windowMs) state.isCounting = true;
    }
    state.settings = { ...state.settings, ...change };
    delete state.learned;
    this.advance(nowMs);
  }

  /**
   * Takes slots for messages that other software sends: all or none. Those in line keep theirs. A key that has taken
   * slots gets the same answer again.
   */
  take(nowMs: number, { key, count }: { key: string; count: number }): TakeAnswer {
    this.#expire(nowMs);
    const { state } = this;
    const workflowId = `take/${key}`;
    const past = state.known[followUpKey(workflowId)];
    if (past) return { taken: true, count: past.sendNumber, takenAt: iso(past.grantedAtMs) };
    const line = this.line().filter(({ held }) => !isHeld(held, nowMs));
    const ofBatch = line.filter(({ lane }) => lane === 'batch').length;
    const freeForBatch = Math.max(0, Math.min(...Object.values(this.#freeSlots('batch'))));
    const before = line.length - ofBatch + Math.min(ofBatch, freeForBatch);
    const freeAtMs = this.expectedAtMs(nowMs, before + count - 1, 'interactive');
    const reason = this.#reasonOfAll(nowMs) ?? (freeAtMs === nowMs ? undefined : 'slot');
    if (reason) {
      // The end of a pause is not known.
      const possibleAt = reason === 'slot' && freeAtMs !== undefined ? iso(freeAtMs) : undefined;
      return defined({ taken: false, count, waitReason: reason, possibleAt } as const);
    }
    state.spent.push(...Array.from({ length: count }, () => nowMs));
    const send = { runId: '', sendNumber: count, grantedAtMs: nowMs, overAtMs: nowMs };
    const settled = { outcome: 'sent', outcomeAtMs: nowMs, messageTag: '', arrival: 0, isTaken: true } as const;
    put(state.known, followUpKey(workflowId), { ...send, ...settled });
    this.#list({ workflowId, sendNumber: count, grantedAtMs: nowMs, settledAtMs: nowMs, outcome: 'taken' });
    return { taken: true, count, takenAt: iso(nowMs) };
  }

  /** The number of slots that a key has taken, if any. */
  takenBy(key: string): number | undefined {
    return this.state.known[followUpKey(`take/${key}`)]?.sendNumber;
  }

  pause(nowMs: number, pause: { untilMs?: number; note?: string }): void {
    this.state.operatorPause = { ...pause, sinceMs: nowMs };
    this.advance(nowMs);
  }

  /** Ends the operator's pause, and tries at once what the service has refused. */
  resume(nowMs: number): void {
    const { servicePause } = this.state;
    delete this.state.operatorPause;
    delete this.state.learned;
    if (servicePause) servicePause.untilMs = Math.min(servicePause.untilMs, nowMs);
    for (const waiter of this.state.waiters) delete waiter.held;
    this.advance(nowMs);
  }

  /** Grants what can be granted now, and informs the front of the line of new reasons to wait. */
  advance(nowMs: number): void {
    const { state } = this;
    this.#expire(nowMs);
    for (let next = this.#next(nowMs); next; next = this.#next(nowMs)) this.#grant(nowMs, next);
    this.#checkOwners(nowMs);
    const line = this.line();
    const inLine = new Set(line);
    const first = [...line, ...state.waiters.filter((waiter) => !inLine.has(waiter))].slice(0, INFORMED);
    for (const waiter of first) {
      if (waiter.told === this.#reason(nowMs, waiter, line)) continue;
      this.#messages.push({ workflowId: waiter.workflowId, answer: this.#standing(nowMs, waiter, line) });
    }
  }

  /** Applies what time alone changes. Runs before every event: no result depends on the time of the previous one. */
  #expire(nowMs: number): void {
    const { state } = this;
    const { windowMs, marginMs } = state.settings;
    for (const grant of state.grants.filter(({ overAtMs }) => overAtMs <= nowMs)) this.#spend(grant, grant.overAtMs);
    const isOccupied = (fromMs: number) => fromMs + windowMs + marginMs > nowMs;
    const freed = [...state.spent, ...state.refused].filter((fromMs) => !isOccupied(fromMs));
    if (freed.length > 0) state.freed = [...state.freed, ...freed].sort((a, b) => a - b).slice(-state.maxLimit);
    state.spent = state.spent.filter(isOccupied);
    state.refused = state.refused.filter(isOccupied);
    for (const turn of Object.values(state.turns)) {
      if (turn.untilMs === undefined || turn.untilMs > nowMs) continue;
      delete turn.owner;
      delete turn.untilMs;
    }
    growLimit(state, this.configuredLimit, nowMs);
  }

  /** When something changes by itself that a follow-up waits for, or, for people, when an operator's pause ends. */
  nextChangeMs(nowMs: number): number | undefined {
    const { waiters, grants, turns, operatorPause, servicePause, checkOwnersAtMs, learned } = this.state;
    const pauseEndsMs = operatorPause?.untilMs ?? Infinity;
    if (waiters.length === 0) return pauseEndsMs > nowMs && pauseEndsMs < Infinity ? pauseEndsMs : undefined;
    const times = [
      pauseEndsMs,
      servicePause?.untilMs ?? Infinity,
      learned?.growAtMs ?? Infinity,
      ...this.slotEnds(),
      ...grants.flatMap(({ grantedAtMs, leaseMs, overAtMs }) => [grantedAtMs + leaseMs, overAtMs]),
      ...waiters.flatMap(({ job, held }) => [turns[job]?.untilMs ?? Infinity, held?.untilMs ?? Infinity]),
      this.#waitedFor().length > 0 ? checkOwnersAtMs : Infinity,
    ];
    const next = times.reduce((first, ms) => (ms > nowMs && ms < first ? ms : first), Infinity);
    return Number.isFinite(next) ? next : undefined;
  }

  /** When each used slot becomes free, in order. */
  slotEnds({ withRefused = true } = {}): number[] {
    const { spent, refused, grants, settings } = this.state;
    const heldMs = settings.windowMs + settings.marginMs;
    const froms = [...spent, ...(withRefused ? refused : []), ...grants.map(({ overAtMs }) => overAtMs)];
    return froms.map((fromMs) => fromMs + heldMs).sort((a, b) => a - b);
  }

  /** Waiters whose job's turn is free, one for each job and lane, in the order of their grants. */
  line(): Waiter[] {
    const { waiters, turns, grantsSinceBatch } = this.state;
    const firsts = new Map<string, Waiter>();
    for (const waiter of waiters) {
      const { job, workflowId, lane, held } = waiter;
      const owner = turns[job]?.owner;
      if (owner !== undefined && owner !== workflowId) continue;
      const place = `${lane} ${job}`;
      const before = firsts.get(place);
      // A message that the service refuses does not block others from its job.
      if (!before || (before.held && !held)) firsts.set(place, waiter);
    }
    const inLine = new Set(firsts.values());
    const ready = waiters.filter((waiter) => inLine.has(waiter));
    const first: Lane = grantsSinceBatch >= BATCH_EVERY - 1 ? 'batch' : 'interactive';
    return [...ready.filter(({ lane }) => lane === first), ...ready.filter(({ lane }) => lane !== first)];
  }

  /** When the waiter at this place, from 0, can expect a slot; `undefined` if that is not known. */
  expectedAtMs(nowMs: number, index: number, lane: Lane): number | undefined {
    const { ofBudget, ofService } = this.#freeSlots(lane);
    const whenFree = (free: number, of: { withRefused: boolean }) =>
      index < free ? nowMs : (this.slotEnds(of)[index - free] ?? Infinity);
    const atMs = Math.max(whenFree(ofBudget, { withRefused: true }), whenFree(ofService, { withRefused: false }));
    return Number.isFinite(atMs) ? atMs : undefined;
  }

  pauseOf(nowMs: number): ShownPause | undefined {
    const { operatorPause, servicePause } = this.state;
    if (this.isPausedByOperator(nowMs)) {
      const { untilMs, note } = operatorPause ?? {};
      return defined({ by: 'operator', until: untilMs === undefined ? undefined : iso(untilMs), note } as const);
    }
    return servicePause && { by: 'service', until: iso(servicePause.untilMs) };
  }

  /**
   * The answer to an ask for a send that was already granted. It also hands the turn, a counted send or a signalled
   * grant to the run that asks.
   */
  #recall({ workflowId, runId, sendNumber, messageTag, mayHaveSent, startedAtMs }: Ask): Answer | undefined {
    const known = this.state.known[followUpKey(workflowId)];
    const remembersAll = startedAtMs > this.state.rememberedSinceMs;
    if (!known) {
      if (!mayHaveSent || remembersAll) return undefined;
      const never = { outcome: 'unknown', outcomeAtMs: 0, grantedAtMs: 0, overAtMs: 0, isLatest: false } as const;
      return { kind: 'known', runId, grantedTo: '', sendNumber, ...never, isSameMessage: false, remembersAll };
    }
    if (known.ended && known.runId === runId) return { kind: 'ended' };
    if (known.messageTag !== '' && known.messageTag !== messageTag) return { kind: 'otherMessage' };
    // Temporal's list does not show how many sends a follow-up has made. Each run that may have sent gets this answer
    // once.
    if (known.isCounted && mayHaveSent && known.runId !== runId)
      Object.assign(known, { runId, sendNumber: Math.max(known.sendNumber, sendNumber) });
    if (sendNumber > known.sendNumber) return undefined;
    const { outcome, outcomeAtMs, grantedAtMs, overAtMs } = known;
    if (known.runId === runId && known.sendNumber === sendNumber && outcome === null) {
      known.isTaken = true;
      return this.#granted(workflowId, known);
    }
    const turn = this.state.turns[jobKey(workflowId)];
    const isSameMessage = known.messageTag === messageTag;
    // Others may since have had the turn, in a time that this budget has yet to count or does not remember.
    const { isCounting, rememberedSinceMs } = this.state;
    const isKnownSince = !isCounting && known.grantedAtMs >= rememberedSinceMs;
    const isLast = isKnownSince && turn?.latest === followUpKey(workflowId);
    // A reused id may be for another message.
    const isLatest = isLast && (isSameMessage || mayHaveSent);
    if (turn && isLatest && mayHaveArrived(outcome)) {
      // The follow-up watches the job again, and no other may send meanwhile.
      Object.assign(turn, { owner: workflowId, runId });
      delete turn.untilMs;
    }
    const send = { grantedTo: known.runId, sendNumber: known.sendNumber, outcome, outcomeAtMs, grantedAtMs, overAtMs };
    return { kind: 'known', runId, ...send, isLatest, isSameMessage, remembersAll };
  }

  /**
   * Puts the follow-up in line. Returns `full` if it has no place: `ask` then removes it unless it is granted at once,
   * because waiters for a job or another lane do not block a free slot.
   */
  #enterLine(ask: Ask): Full | undefined {
    const { workflowId, runId, sendNumber, lane, leaseMs, drainMs, messageTag } = ask;
    const { waiters, known, turns } = this.state;
    const current = { runId, sendNumber, lane, leaseMs, drainMs, messageTag };
    const waiter = waiters.find((each) => each.workflowId === workflowId);
    if (waiter) {
      Object.assign(waiter, current);
      return undefined;
    }
    const job = jobKey(workflowId);
    // A follow-up that had a place or has the turn always gets one: others may wait for that turn.
    const past = known[followUpKey(workflowId)];
    const before = past?.arrival ?? 0;
    const hasPlace = before > 0 || turns[job]?.owner === workflowId;
    const ofJob = waiters.filter((each) => each.job === job).length;
    const share = lane === 'batch' ? BATCH_PLACES : 1;
    const isFull = !hasPlace && waiters.length >= share * this.places.most;
    const isCrowded = !hasPlace && ofJob >= share * this.places.mostForJob;
    const arrival = before > 0 ? before : ++this.state.arrivals;
    waiters.push({ workflowId, job, ...current, arrival, told: 'slot', ...(past && holdOf(past)) });
    waiters.sort((a, b) => a.arrival - b.arrival);
    const refusal = { kind: 'full', runId, sendNumber } as const;
    if (isCrowded) return { ...refusal, reason: 'job-busy', retryMs: CROWDED_RETRY_MS };
    return isFull ? { ...refusal, reason: 'queue-full', retryMs: FULL_RETRY_MS } : undefined;
  }

  #settle(nowMs: number, settlement: Settlement): void {
    const { workflowId, runId, sendNumber, outcome } = settlement;
    const { state } = this;
    // After a reset of the budget, an ask may be in line again although its send is over.
    state.waiters = state.waiters.filter(
      (each) => each.workflowId !== workflowId || each.runId !== runId || each.sendNumber > sendNumber,
    );
    const past = state.known[followUpKey(workflowId)];
    const grant = state.grants.find((each) => isSame(each, settlement));
    const atMs = Math.min(nowMs, Math.max(settlement.atMs, grant?.grantedAtMs ?? 0));
    // A reset run's repeated report adds nothing.
    const isFirstReport = past?.outcome === null && past.runId === runId && past.sendNumber === sendNumber;
    const isNew = !grant && !(past?.runId === runId && past.sendNumber >= sendNumber);
    if (outcome === 'notSent') this.#free(settlement, atMs);
    else this.#note(settlement, outcome, atMs);
    if (grant && outcome !== 'notSent')
      this.#spend(grant, outcome === 'unknown' ? grant.overAtMs : Math.min(atMs, grant.overAtMs), outcome);
    else if (isNew && outcome !== 'notSent') {
      // Granted by an earlier budget, or by a part of this one's past that a reset undid. It is not known how long the
      // bytes may still arrive, so the latest worker's drain applies.
      this.#bookSend(outcome === 'unknown' ? Math.max(atMs, nowMs + state.drainMs) : atMs, settlement, outcome);
      const turn = state.turns[jobKey(workflowId)];
      const isOld = turn !== undefined && (state.known[turn.latest]?.grantedAtMs ?? 0) > atMs;
      if (turn?.owner === undefined && !isOld && mayHaveArrived(outcome)) {
        const { lastTurn } = turn ?? {};
        const latest = followUpKey(workflowId);
        put(state.turns, jobKey(workflowId), { owner: workflowId, latest, ...(lastTurn && { lastTurn }) });
      }
    }
    const isLatest = sendNumber >= (past?.sendNumber ?? 0);
    if (isFirstReport || (isNew && isLatest)) this.#learn(settlement, isFirstReport ? past.grantedAtMs : 0, atMs);
  }

  /** Draws conclusions about the service from an outcome. */
  #learn({ workflowId, outcome, refusal: ofRead, retryAfterMs }: Settlement, grantedAtMs: number, atMs: number): void {
    const { servicePause } = this.state;
    const isProbe = servicePause !== undefined && grantedAtMs >= servicePause.untilMs;
    if (outcome === 'limited') this.state.counts.limited += 1;
    const past = this.state.known[followUpKey(workflowId)];
    const { count = 0 } = past?.refusals ?? {};
    // A job may have its own limit, which shows nothing about the project's.
    const teaches = outcome === 'sent' || (outcome === 'limited' && count < MOST_LESSONS);
    if (teaches) learnLimit(this.state, outcome, isProbe, atMs);
    const reason = refusalOf(outcome) ?? ofRead;
    if (reason) {
      if (!this.#isRefusedAlone(workflowId, reason)) this.#pauseFor(reason, atMs, retryAfterMs, isProbe);
      this.state.refusedInARow += 1;
      if (!past) return;
      // The service may refuse only this job, so another job probes next. A project's limit ends soon.
      const step = this.state.servicePause?.step ?? 0;
      if (isProbe && step > (reason === 'limited' ? FIRST_PROBES : 0)) past.arrival = ++this.state.arrivals;
      past.refusals = defined({ reason, count: count + 1, retryAfterMs });
      return;
    }
    if (outcome !== 'sent' && outcome !== 'rejected') return;
    this.state.refusedInARow = 0;
    if (isProbe) delete this.state.servicePause;
  }

  /** Whether a message is refused while others are accepted, which shows nothing about the project. */
  #isRefusedAlone(workflowId: string, reason: Refusal | undefined): boolean {
    const { known, refusedInARow, servicePause } = this.state;
    const { count = 0 } = known[followUpKey(workflowId)]?.refusals ?? {};
    return count > 1 && reason !== 'limited' && !servicePause && refusedInARow < MOST_REFUSED_ALONE;
  }

  #pauseFor(reason: Refusal, atMs: number, retryAfterMs: number | undefined, isProbe = false): void {
    const { servicePause } = this.state;
    const step = (servicePause?.step ?? 0) + (isProbe ? 1 : 0);
    // A very short Retry-After would spend the whole budget on probes.
    const firstMs = retryAfterMs === undefined ? FIRST_PAUSE_MS : SHORTEST_PAUSE_MS;
    const pauseMs = Math.max(retryAfterMs ?? 0, Math.min(LONGEST_PAUSE_MS, firstMs * 2 ** step));
    const untilMs = Math.max(servicePause?.untilMs ?? 0, atMs + pauseMs);
    this.state.servicePause = { reason, sinceMs: servicePause?.sinceMs ?? atMs, untilMs, step };
  }

  #end(nowMs: number, { workflowId, runId, turnUntilMs, lastTurn }: End): void {
    const { known, grants, turns } = this.state;
    // The run that replaced it may already have the place.
    this.#leaveLine(workflowId, runId);
    for (const grant of grants.filter((each) => each.workflowId === workflowId && each.runId === runId)) {
      this.#free(grant, nowMs);
    }
    const past = known[followUpKey(workflowId)];
    if (past?.runId === runId) {
      past.ended = true;
      delete past.refusals;
    }
    const turn = turns[jobKey(workflowId)];
    if (turn?.owner !== workflowId || (turn.runId ?? runId) !== runId) return;
    if (lastTurn) turn.lastTurn = lastTurn;
    // Another run's send may still arrive.
    const isOpen = past && past.runId !== runId && mayHaveArrived(past.outcome);
    const untilMs = turnUntilMs ?? (isOpen && !lastTurn ? past.overAtMs + SETTLE_MS : undefined);
    if (untilMs === undefined) delete turn.owner;
    else turn.untilMs = Math.min(untilMs, nowMs + LONGEST_KEPT_TURN_MS);
  }

  /** @param runId only if this run asked for the place */
  #leaveLine(workflowId: string, runId?: string): void {
    const leaves = (each: Waiter) => each.workflowId === workflowId && (runId === undefined || each.runId === runId);
    this.state.waiters = this.state.waiters.filter((each) => !leaves(each));
  }

  /** Follow-ups whose turn blocks others and has no known end. */
  #waitedFor(): string[] {
    const { waiters, turns } = this.state;
    const owners = waiters.flatMap(({ job, workflowId }) => {
      const turn = turns[job];
      return turn?.owner !== undefined && turn.owner !== workflowId && turn.untilMs === undefined ? [turn.owner] : [];
    });
    return [...new Set(owners)];
  }

  #checkOwners(nowMs: number): void {
    const owners = this.#waitedFor();
    if (owners.length === 0 || nowMs < this.state.checkOwnersAtMs) return;
    this.state.checkOwnersAtMs = nowMs + CHECK_OWNERS_MS;
    this.#messages.push(...owners.map((workflowId) => ({ workflowId })));
  }

  /** Ends a send, and holds its slot for a window from `fromMs`. */
  #spend(grant: Grant, fromMs: number, outcome: SendOutcome = 'unknown'): void {
    this.state.grants = this.state.grants.filter((each) => each !== grant);
    this.#hold(fromMs, outcome);
  }

  #hold(fromMs: number, outcome: SendOutcome): void {
    (refusalOf(outcome) ? this.state.refused : this.state.spent).push(fromMs);
  }

  /** Frees the slot of a send that was not made. After an outage, the report may come after the lease. */
  #free(send: SendId, atMs: number): void {
    const { grants, spent } = this.state;
    const past = this.state.known[followUpKey(send.workflowId)];
    const isGranted = (each: Grant) => isSame(each, send);
    const isUnreported = past?.outcome === null && past.runId === send.runId && past.sendNumber === send.sendNumber;
    const slot = isUnreported && !grants.some(isGranted) ? spent.indexOf(past.overAtMs) : -1;
    if (slot >= 0) spent.splice(slot, 1);
    this.state.grants = grants.filter((each) => !isGranted(each));
    this.#note(send, 'notSent', atMs);
  }

  /** Records the outcome of a send, unless one is recorded. A send that cannot have arrived gives up the job's turn. */
  #note({ workflowId, runId, sendNumber }: SendId, outcome: SendOutcome, atMs: number): void {
    const shown = this.state.lastSends.findLast((each) => each.workflowId === workflowId);
    if (shown?.sendNumber === sendNumber && !shown.outcome) Object.assign(shown, { outcome, settledAtMs: atMs });
    const past = this.state.known[followUpKey(workflowId)];
    if (past?.runId !== runId || past.sendNumber !== sendNumber) return;
    if (past.outcome === null) Object.assign(past, { outcome, outcomeAtMs: atMs });
    const turn = this.state.turns[jobKey(workflowId)];
    if (turn?.owner === workflowId && !mayHaveArrived(past.outcome)) delete turn.owner;
  }

  /**
   * Counts a send that this budget did not grant. It becomes the latest of its follow-up only if no later one is known
   * and if it may have arrived; otherwise an unknown later send may exist.
   *
   * @param atMs start of the window in which its slot is held
   * @param more.listedAtMs its time in the list of sends. Default: `atMs`
   */
  #bookSend(
    atMs: number,
    send: SendId,
    outcome: SendOutcome,
    { waiter, listedAtMs = atMs }: { waiter?: Waiter | undefined; listedAtMs?: number } = {},
  ): void {
    const { workflowId, runId, sendNumber } = send;
    const { state } = this;
    const past = state.known[followUpKey(workflowId)];
    const isUnderWay = state.grants.some((grant) => grant.workflowId === workflowId);
    if (!isUnderWay && mayHaveArrived(outcome) && sendNumber >= (past?.sendNumber ?? 0)) {
      const isCounted = runId === '' || (past?.isCounted === true && outcome !== 'sent');
      put(state.known, followUpKey(workflowId), {
        ...{ runId, sendNumber, outcome },
        messageTag: waiter?.messageTag ?? past?.messageTag ?? '',
        arrival: waiter?.arrival ?? past?.arrival ?? 0,
        ...{ grantedAtMs: atMs, overAtMs: atMs, outcomeAtMs: atMs, isTaken: true },
        ...(isCounted && ({ isCounted } as const)),
      });
    }
    this.#hold(atMs, outcome);
    this.#list({ workflowId, sendNumber, grantedAtMs: listedAtMs, settledAtMs: listedAtMs, outcome });
  }

  #list(send: BudgetState['lastSends'][number]): void {
    const most = Math.min(MAX_LAST_SENDS, Math.max(MIN_LAST_SENDS, this.state.settings.limit));
    this.state.lastSends = [...this.state.lastSends, send].slice(-most);
  }

  isPausedByOperator(nowMs: number): boolean {
    const { operatorPause } = this.state;
    return operatorPause !== undefined && (operatorPause.untilMs ?? Infinity) > nowMs;
  }

  #next(nowMs: number): Waiter | undefined {
    const { grants, isCounting, servicePause } = this.state;
    if (isCounting || this.isPausedByOperator(nowMs)) return undefined;
    if (servicePause && servicePause.untilMs > nowMs) return undefined;
    const underWay = grants.filter(({ grantedAtMs, leaseMs }) => grantedAtMs + leaseMs > nowMs).length;
    if (underWay >= (servicePause ? 1 : MAX_UNDER_WAY)) return undefined;
    const open = lanes.filter((lane) => Object.values(this.#freeSlots(lane)).every((free) => free > 0));
    const line = this.line().filter(({ lane }) => open.includes(lane));
    const first = line.find(({ held }) => !isHeld(held, nowMs));
    // If the service has refused all waiting messages, one of them probes.
    return first ?? (servicePause && line[0]);
  }

  #grant(nowMs: number, waiter: Waiter): void {
    const { workflowId, runId, sendNumber, job, lane, leaseMs, drainMs, arrival, messageTag } = waiter;
    const { state } = this;
    state.waiters = state.waiters.filter((each) => each !== waiter);
    const overAtMs = nowMs + leaseMs + drainMs;
    state.grants.push({ workflowId, runId, sendNumber, grantedAtMs: nowMs, leaseMs, overAtMs });
    state.counts.grants += 1;
    state.grantsSinceBatch = lane === 'batch' ? 0 : state.grantsSinceBatch + 1;
    const send = { runId, sendNumber, grantedAtMs: nowMs, overAtMs };
    const { refusals } = state.known[followUpKey(workflowId)] ?? {};
    const unreported = { outcome: null, outcomeAtMs: 0, isTaken: false };
    const known: KnownSend = { ...send, ...unreported, messageTag, arrival, ...(refusals && { refusals }) };
    put(state.known, followUpKey(workflowId), known);
    const { lastTurn } = state.turns[job] ?? {};
    const turn: Turn = { owner: workflowId, latest: followUpKey(workflowId), ...(lastTurn && { lastTurn }) };
    put(state.turns, job, turn);
    this.#list({ workflowId, sendNumber, grantedAtMs: nowMs });
    this.#messages.push({ workflowId, answer: this.#granted(workflowId, known) });
  }

  #granted(workflowId: string, { runId, sendNumber, grantedAtMs, overAtMs }: KnownSend): Granted {
    const send = { workflowId, runId, sendNumber };
    // An expired grant has no lease left, so the send must not start.
    const { leaseMs } = this.state.grants.find((grant) => isSame(grant, send)) ?? { leaseMs: 1 };
    const { lastTurn } = this.state.turns[jobKey(workflowId)] ?? {};
    return { kind: 'granted', runId, sendNumber, grantedAtMs, leaseMs, overAtMs, ...(lastTurn && { lastTurn }) };
  }

  #used(): number {
    const { grants, spent, refused } = this.state;
    return grants.length + spent.length + refused.length;
  }

  /** Slots that a lane may use now. A learned limit applies to accepted messages only. */
  #freeSlots(lane: Lane): { ofBudget: number; ofService: number } {
    const { settings, grants, spent, learned, servicePause } = this.state;
    // Proportional to a lower limit, so that the batch lane does not wait for ever.
    const share = Math.floor((settings.reserve * this.limit) / Math.max(1, settings.limit));
    const reserve = lane === 'batch' ? share : 0;
    const ofBudget = this.configuredLimit - this.#used();
    // A probe tests whether the limit still holds.
    const ofService = servicePause ? Infinity : (learned?.limit ?? Infinity) - grants.length - spent.length;
    return { ofBudget: ofBudget - reserve, ofService: ofService - reserve };
  }

  /** The reason why the whole project waits. */
  #reasonOfAll(nowMs: number): WaitReason | undefined {
    const { isCounting, servicePause } = this.state;
    if (isCounting) return 'counting';
    if (this.isPausedByOperator(nowMs)) return 'paused';
    // A pause keeps its reason until a probe succeeds, however many probes that takes.
    return servicePause?.reason;
  }

  #reason(nowMs: number, waiter: Waiter, line: readonly Waiter[]): WaitReason {
    const ofAll = this.#reasonOfAll(nowMs);
    if (ofAll) return ofAll;
    const { held } = waiter;
    if (isHeld(held, nowMs)) return held.reason;
    return line.includes(waiter) ? 'slot' : 'job-busy';
  }

  #standing(nowMs: number, waiter: Waiter, line: readonly Waiter[]): Waiting {
    const reason = (waiter.told = this.#reason(nowMs, waiter, line));
    const index = line.indexOf(waiter);
    const expectedAtMs = reason === 'slot' ? this.expectedAtMs(nowMs, index, waiter.lane) : undefined;
    const { runId, sendNumber, held } = waiter;
    const ofOwn = isHeld(held, nowMs) ? ({ by: 'service', until: iso(held.untilMs) } as const) : undefined;
    const pause = this.pauseOf(nowMs) ?? ofOwn;
    return defined({ kind: 'waiting', runId, sendNumber, reason, position: index + 1, expectedAtMs, pause } as const);
  }
}

/** Delays a message that is repeatedly refused while others are accepted, longer each time. */
function holdOf({ refusals, outcomeAtMs }: KnownSend): Pick<Waiter, 'held'> | undefined {
  if (!refusals || refusals.count < 2) return undefined;
  const { count, retryAfterMs = 0 } = refusals;
  const holdMs = Math.max(retryAfterMs, Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (count - 2)));
  return { held: { reason: refusals.reason, untilMs: outcomeAtMs + holdMs } };
}

/** Whether a waiter is delayed because the service refuses only its message. */
export function isHeld(held: Waiter['held'], nowMs: number): held is NonNullable<Waiter['held']> {
  return held !== undefined && held.untilMs > nowMs;
}

function isSame(a: SendId, b: SendId): boolean {
  return a.workflowId === b.workflowId && a.runId === b.runId && a.sendNumber === b.sendNumber;
}

/** Moves a key to the end: the first keys are forgotten first. */
function put<T>(record: Record<string, T>, key: string, value: T): void {
  Reflect.deleteProperty(record, key);
  record[key] = value;
}
