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
  type Known,
  MIN_LAST_SENDS,
  type SendId,
  type Turn,
  type Waiter,
} from './state.js';

/** How many follow-ups may stand in line. */
export interface Places {
  /** In all: ten hours of a budget of 100. */
  most: number;
  /** For one job. The others watch the job. */
  mostForJob: number;
}
const PLACES: Places = { most: 1_000, mostForJob: 10 };
/** The batch lane may take this share of them, so that an interactive follow-up finds one. */
const BATCH_PLACES = 0.9;

/** Most sends under way at once. It bounds how many a crash leaves unknown, and how many a service refuses at once. */
const MAX_UNDER_WAY = 10;
/** How many of those first in line are told when their reason to wait changes. Others learn it when they ask again. */
const TOLD = 20;
/** When a follow-up without a place asks again. A job whose turn is taken is soon at work, and is watched then. */
const CROWDED_RETRY_MS = 60_000;
const FULL_RETRY_MS = 900_000;
/** While interactive follow-ups keep coming, every tenth grant goes to the batch lane. */
const BATCH_EVERY = 10;
/** Most sends that are listed for people. */
const MAX_LAST_SENDS = 1_000;
/** Pause after a refusal without a Retry-After, and the least with one. It doubles with each probe that is refused. */
const FIRST_PAUSE_MS = 30_000;
const SHORTEST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 600_000;
/** So many refusals in a row concern the project, even if each message was refused before. */
const MOST_REFUSED_ALONE = 4;
/** So many 429s to one message say something about the limit of the project. */
const MOST_LESSONS = 3;
/** So many probes in a row may be those of the message that a 429 refused. */
const FIRST_PROBES = 2;
/** How long after the last byte the job may still show the turn before: the default of `settleTime`. */
const SETTLE_MS = 120_000;
/** A follow-up that has ended keeps its turn for lease, drain and settle time. A longer time can only come from a signal sent by hand. */
const LONGEST_KEPT_TURN_MS = 14_400_000;
/** How often the follow-ups that keep others from their job are asked whether they run: one may be terminated. */
const CHECK_OWNERS_MS = 600_000;

/** What a follow-up is told. Without an answer, it is woken: the failure of that says that it does not run. */
export interface Message {
  workflowId: string;
  answer?: Granted | Waiting;
}

/** A follow-up of Temporal's list that may have been sent. */
export interface ListedSend {
  workflowId: string;
  isRunning: boolean;
  /** It runs and waits: it has not sent, unless its state is late. */
  isWaiting?: boolean;
}

/** New settings. Those that are left out stay as they are. */
export type SettingsChange = Partial<Omit<BudgetSettings, 'marginMs'>>;

/**
 * The rules of a project's budget. Pure: the time is passed in. Every event ends in {@link advance}. What that decides
 * depends on the state and the time alone, so a replay that delivers an event in a later task decides the same.
 */
export class Budget {
  #messages: Message[] = [];

  constructor(
    readonly state: BudgetState,
    private readonly places = PLACES,
  ) {}

  /** Messages in a window, bounded by the worker's configuration. */
  get configuredLimit(): number {
    return Math.min(this.state.settings.limit, this.state.maxLimit);
  }

  /** Messages in a window, bounded by what the service accepts, too. */
  get limit(): number {
    return Math.min(this.configuredLimit, this.state.learned?.limit ?? Infinity);
  }

  /** Takes the messages that the last events led to. */
  takeMessages(): Message[] {
    return this.#messages.splice(0);
  }

  ask(nowMs: number, ask: Ask): Answer {
    this.#expire(nowMs);
    Object.assign(this.state, { maxLimit: ask.maxLimit, drainMs: ask.drainMs });
    const recalled = this.#recall(ask);
    if (recalled) return recalled;
    const { workflowId, refusal, retryAfterMs } = ask;
    // A pause that has begun is left to its probe.
    const isNew = !this.state.servicePause && !this.#isRefusedAlone(workflowId, refusal);
    if (refusal && isNew) this.#pauseFor(refusal, nowMs, retryAfterMs);
    const full = this.#enterLine(ask);
    this.advance(nowMs);
    // The answer says what would be signalled.
    this.#messages = this.#messages.filter((message) => message.workflowId !== workflowId || !message.answer);
    const granted = this.#recall(ask);
    if (granted) return granted;
    if (full) this.#leaveLine(workflowId);
    if (full) return full;
    const waiter = this.state.waiters.find((each) => each.workflowId === workflowId);
    return waiter ? this.#standing(nowMs, waiter, this.line()) : { kind: 'ended' };
  }

  hear(nowMs: number, event: BudgetEvent): void {
    this.#expire(nowMs);
    if (event.kind === 'settle') this.#settle(nowMs, event);
    else this.#end(nowMs, event);
    this.advance(nowMs);
  }

  /** A message did not find its follow-up, which has ended and told nobody. */
  missed(nowMs: number, { workflowId, answer }: Message): void {
    this.#expire(nowMs);
    const known = this.state.known[followUpKey(workflowId)];
    // Whoever is woken has no place, and one that was started since may have one.
    if (answer) this.#leaveLine(workflowId, answer.runId);
    if (answer?.kind === 'granted' && !known?.isTaken) this.#free({ workflowId, ...answer }, nowMs);
    const turn = this.state.turns[jobKey(workflowId)];
    if (turn?.owner === workflowId) turn.untilMs ??= Math.max(nowMs, known?.overAtMs ?? 0) + SETTLE_MS;
    this.advance(nowMs);
  }

  /**
   * Books sends of a time that this budget does not know, the oldest first, each as one that is made now and whose
   * outcome is unknown.
   *
   * @param more.others how many there are besides, of which nothing else is known
   * @param more.drainMs how long bytes of those that were under way may still arrive
   */
  book(nowMs: number, sends: readonly ListedSend[], more: { others?: number; drainMs?: number } = {}): void {
    const { state } = this;
    const { others = 0, drainMs = 0 } = more;
    const atMs = nowMs + drainMs;
    this.#expire(nowMs);
    state.spent.push(...Array.from({ length: others }, () => atMs));
    for (const { workflowId, isRunning } of sends) {
      const past = state.known[followUpKey(workflowId)];
      const wasHeard = past?.outcome === 'sent';
      if (past?.outcome === 'rejected' || (wasHeard && !isRunning)) continue;
      // Its lease is over, and what became of it, or of a later one, may never be told again.
      state.grants = state.grants.filter((grant) => grant.workflowId !== workflowId);
      // A place in line may be from before a reset, and its send may have been made: the follow-up asks again.
      const waiter = state.waiters.find((each) => each.workflowId === workflowId);
      const sendNumber = Math.max(past?.sendNumber ?? 1, waiter?.sendNumber ?? 1);
      if (!wasHeard)
        this.#bookSend(atMs, { workflowId, runId: '', sendNumber }, 'unknown', { waiter, listedAtMs: nowMs });
      if (waiter) this.#leaveLine(workflowId);
      if (waiter) this.#messages.push({ workflowId });
      const key = followUpKey(workflowId);
      const turn: Turn = { latest: key, ...state.turns[jobKey(workflowId)] };
      // The list does not tell which of two follow-ups to a job sent last: either may have been reset.
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

  /** Lets follow-ups ask again that have no place in line. They may have had one in the line of an earlier budget. */
  wake(workflowIds: readonly string[]): void {
    const known = new Set([...this.state.waiters, ...this.#messages].map(({ workflowId }) => workflowId));
    const lost = workflowIds.filter((workflowId) => !known.has(workflowId)).slice(0, this.places.most);
    this.#messages.push(...lost.map((workflowId) => ({ workflowId })));
  }

  /** Books as many sends as the limit leaves, for an operator who does not trust the list of follow-ups. */
  assumeFull(nowMs: number): void {
    const free = Math.max(0, this.limit - this.#used());
    this.state.spent.push(...Array.from({ length: free }, () => nowMs));
  }

  /** Changes settings. If more slots are used than the new limit has, they drain. */
  setLimit(nowMs: number, change: SettingsChange): void {
    const { state } = this;
    const { windowMs = 0 } = change;
    this.#expire(nowMs);
    if (windowMs > state.settings.windowMs) {
      state.spent.push(...state.freed.splice(0));
      // What it does not remember of the longer window, it counts.
      if (state.rememberedSinceMs > nowMs - windowMs) state.isCounting = true;
    }
    state.settings = { ...state.settings, ...change };
    delete state.learned;
    this.advance(nowMs);
  }

  /**
   * Takes slots for messages that something else sends, all or none. Those in line keep theirs. A key that has taken slots
   * gets the same answer again.
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
      // What ends a pause is not known.
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

  /** How many slots a key has taken, if it has taken any. */
  takenBy(key: string): number | undefined {
    return this.state.known[followUpKey(`take/${key}`)]?.sendNumber;
  }

  pause(nowMs: number, pause: { untilMs?: number; note?: string }): void {
    this.state.operatorPause = { ...pause, sinceMs: nowMs };
    this.advance(nowMs);
  }

  /** Ends the operator's pause. What the service has refused is tried at once. */
  resume(nowMs: number): void {
    const { servicePause } = this.state;
    delete this.state.operatorPause;
    delete this.state.learned;
    if (servicePause) servicePause.untilMs = Math.min(servicePause.untilMs, nowMs);
    for (const waiter of this.state.waiters) delete waiter.held;
    this.advance(nowMs);
  }

  /** Grants what can be granted now, and tells those first in line who now wait for another reason. */
  advance(nowMs: number): void {
    const { state } = this;
    this.#expire(nowMs);
    for (let next = this.#next(nowMs); next; next = this.#next(nowMs)) this.#grant(nowMs, next);
    this.#checkOwners(nowMs);
    const line = this.line();
    const inLine = new Set(line);
    const first = [...line, ...state.waiters.filter((waiter) => !inLine.has(waiter))].slice(0, TOLD);
    for (const waiter of first) {
      if (waiter.told === this.#reason(nowMs, waiter, line)) continue;
      this.#messages.push({ workflowId: waiter.workflowId, answer: this.#standing(nowMs, waiter, line) });
    }
  }

  /** What time alone changes. It comes before every event, so that none depends on when the last one was. */
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

  /** When something changes by itself that a follow-up waits for. Also, when an operator's pause ends, for people. */
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

  /** When each occupied slot is free again, in order. */
  slotEnds({ withRefused = true } = {}): number[] {
    const { spent, refused, grants, settings } = this.state;
    const heldMs = settings.windowMs + settings.marginMs;
    const froms = [...spent, ...(withRefused ? refused : []), ...grants.map(({ overAtMs }) => overAtMs)];
    return froms.map((fromMs) => fromMs + heldMs).sort((a, b) => a - b);
  }

  /** Those whose job's turn is free, one for each job and lane, in the order in which they are granted. */
  line(): Waiter[] {
    const { waiters, turns, grantsSinceBatch } = this.state;
    const firsts = new Map<string, Waiter>();
    for (const waiter of waiters) {
      const { job, workflowId, lane, held } = waiter;
      const owner = turns[job]?.owner;
      if (owner !== undefined && owner !== workflowId) continue;
      const place = `${lane} ${job}`;
      const before = firsts.get(place);
      // A message that the service refuses keeps no other from its job.
      if (!before || (before.held && !held)) firsts.set(place, waiter);
    }
    const inLine = new Set(firsts.values());
    const ready = waiters.filter((waiter) => inLine.has(waiter));
    const first: Lane = grantsSinceBatch >= BATCH_EVERY - 1 ? 'batch' : 'interactive';
    return [...ready.filter(({ lane }) => lane === first), ...ready.filter(({ lane }) => lane !== first)];
  }

  /** When a slot is expected for whoever has this place in the line, from 0; `undefined` if nobody can tell. */
  expectedAtMs(nowMs: number, index: number, lane: Lane): number | undefined {
    const { ofBudget, ofService } = this.#freeSlots(lane);
    const whenFree = (free: number, of: { withRefused: boolean }) =>
      index < free ? nowMs : (this.slotEnds(of)[index - free] ?? Infinity);
    const atMs = Math.max(whenFree(ofBudget, { withRefused: true }), whenFree(ofService, { withRefused: false }));
    return Number.isFinite(atMs) ? atMs : undefined;
  }

  /** What keeps the whole project waiting, for people. */
  pauseOf(nowMs: number): ShownPause | undefined {
    const { operatorPause, servicePause } = this.state;
    if (this.isPausedByOperator(nowMs)) {
      const { untilMs, note } = operatorPause ?? {};
      return defined({ by: 'operator', until: untilMs === undefined ? undefined : iso(untilMs), note } as const);
    }
    return servicePause && { by: 'service', until: iso(servicePause.untilMs) };
  }

  /** The answer to an ask for a send that was granted, now or before. */
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
    // Temporal's list does not tell how many sends it has made. Each run that may have made some is told that once.
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
    // Others may have had the turn since, in a time that this budget has yet to count or does not remember.
    const { isCounting, rememberedSinceMs } = this.state;
    const isKnownSince = !isCounting && known.grantedAtMs >= rememberedSinceMs;
    const isLast = isKnownSince && turn?.latest === followUpKey(workflowId);
    // An id that is used again may be used for another message.
    const isLatest = isLast && (isSameMessage || mayHaveSent);
    if (turn && isLatest && mayHaveArrived(outcome)) {
      // The follow-up watches the job again, and nobody else may send meanwhile.
      Object.assign(turn, { owner: workflowId, runId });
      delete turn.untilMs;
    }
    const send = { grantedTo: known.runId, sendNumber: known.sendNumber, outcome, outcomeAtMs, grantedAtMs, overAtMs };
    return { kind: 'known', runId, ...send, isLatest, isSameMessage, remembersAll };
  }

  /**
   * Takes a place in line. Returns the answer to a follow-up that gets none, unless it is granted at once: whoever waits
   * for a job or another lane keeps nobody from a free slot.
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
    // Whoever had a place or has the turn comes back to it: others may wait for that turn.
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
    // After a reset of the budget, an ask may be in line again whose send is over.
    state.waiters = state.waiters.filter(
      (each) => each.workflowId !== workflowId || each.runId !== runId || each.sendNumber > sendNumber,
    );
    const past = state.known[followUpKey(workflowId)];
    const grant = state.grants.find((each) => isSame(each, settlement));
    const atMs = Math.min(nowMs, Math.max(settlement.atMs, grant?.grantedAtMs ?? 0));
    // What a reset run tells again says nothing new.
    const isFirstWord = past?.outcome === null && past.runId === runId && past.sendNumber === sendNumber;
    const isNew = !grant && !(past?.runId === runId && past.sendNumber >= sendNumber);
    if (outcome === 'notSent') this.#free(settlement, atMs);
    else this.#note(settlement, outcome, atMs);
    if (grant && outcome !== 'notSent')
      this.#spend(grant, outcome === 'unknown' ? grant.overAtMs : Math.min(atMs, grant.overAtMs), outcome);
    else if (isNew && outcome !== 'notSent') {
      // Granted before this budget's time, or by the part of its past that a reset undid.
      // Nobody knows how long its bytes may still arrive: as long as those of the latest worker.
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
    if (isFirstWord || (isNew && isLatest)) this.#learn(settlement, isFirstWord ? past.grantedAtMs : 0, atMs);
  }

  /** What an outcome says about the service. */
  #learn({ workflowId, outcome, refusal: ofRead, retryAfterMs }: Settlement, grantedAtMs: number, atMs: number): void {
    const { servicePause } = this.state;
    const isProbe = servicePause !== undefined && grantedAtMs >= servicePause.untilMs;
    if (outcome === 'limited') this.state.counts.limited += 1;
    const past = this.state.known[followUpKey(workflowId)];
    const { count = 0 } = past?.refusals ?? {};
    // A job may have a limit of its own, which says nothing of the project's.
    const teaches = outcome === 'sent' || (outcome === 'limited' && count < MOST_LESSONS);
    if (teaches) learnLimit(this.state, outcome, isProbe, atMs);
    const reason = refusalOf(outcome) ?? ofRead;
    if (reason) {
      if (!this.#isRefusedAlone(workflowId, reason)) this.#pauseFor(reason, atMs, retryAfterMs, isProbe);
      this.state.refusedInARow += 1;
      if (!past) return;
      // The service may refuse this job alone, so the next probe is another's. A limit of the project is soon over.
      const step = this.state.servicePause?.step ?? 0;
      if (isProbe && step > (reason === 'limited' ? FIRST_PROBES : 0)) past.arrival = ++this.state.arrivals;
      past.refusals = defined({ reason, count: count + 1, retryAfterMs });
      return;
    }
    if (outcome !== 'sent' && outcome !== 'rejected') return;
    this.state.refusedInARow = 0;
    if (isProbe) delete this.state.servicePause;
  }

  /** The message was refused before, and others are accepted: its refusal says nothing about the project. */
  #isRefusedAlone(workflowId: string, reason: Refusal | undefined): boolean {
    const { known, refusedInARow, servicePause } = this.state;
    const { count = 0 } = known[followUpKey(workflowId)]?.refusals ?? {};
    return count > 1 && reason !== 'limited' && !servicePause && refusedInARow < MOST_REFUSED_ALONE;
  }

  #pauseFor(reason: Refusal, atMs: number, retryAfterMs: number | undefined, isProbe = false): void {
    const { servicePause } = this.state;
    const step = (servicePause?.step ?? 0) + (isProbe ? 1 : 0);
    // A service that asks for another try too soon would have the whole budget spent on probes.
    const firstMs = retryAfterMs === undefined ? FIRST_PAUSE_MS : SHORTEST_PAUSE_MS;
    const pauseMs = Math.max(retryAfterMs ?? 0, Math.min(LONGEST_PAUSE_MS, firstMs * 2 ** step));
    const untilMs = Math.max(servicePause?.untilMs ?? 0, atMs + pauseMs);
    this.state.servicePause = { reason, sinceMs: servicePause?.sinceMs ?? atMs, untilMs, step };
  }

  #end(nowMs: number, { workflowId, runId, turnUntilMs, lastTurn }: End): void {
    const { known, grants, turns } = this.state;
    // The run that replaced it may have the place by now.
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
    // What another run of this follow-up sent may still arrive.
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

  /** Follow-ups that have a turn for which others wait, and whose end is not known. */
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

  /** A send is over: its slot is held for a window from `fromMs`. */
  #spend(grant: Grant, fromMs: number, outcome: SendOutcome = 'unknown'): void {
    this.state.grants = this.state.grants.filter((each) => each !== grant);
    this.#hold(fromMs, outcome);
  }

  #hold(fromMs: number, outcome: SendOutcome): void {
    (refusalOf(outcome) ? this.state.refused : this.state.spent).push(fromMs);
  }

  /** A send was certainly not made. After an outage of all workers, that may be heard when the lease is over. */
  #free(send: SendId, atMs: number): void {
    const { grants, spent } = this.state;
    const past = this.state.known[followUpKey(send.workflowId)];
    const isGranted = (each: Grant) => isSame(each, send);
    const isUnheard = past?.outcome === null && past.runId === send.runId && past.sendNumber === send.sendNumber;
    const slot = isUnheard && !grants.some(isGranted) ? spent.indexOf(past.overAtMs) : -1;
    if (slot >= 0) spent.splice(slot, 1);
    this.state.grants = grants.filter((each) => !isGranted(each));
    this.#note(send, 'notSent', atMs);
  }

  /** Notes how a send ended, unless somebody has said so. One that cannot have arrived leaves the job's turn. */
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
   * Counts a send that this budget did not grant. It becomes the latest of its follow-up only if no later one is known, and
   * if it may have arrived: otherwise, there may have been a later one that nobody knows.
   *
   * @param atMs from when on its slot is held for a window
   * @param more.listedAtMs its time among the last sends. Default: `atMs`
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

  /** Whether an operator lets nothing through. */
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
    // If the service refused all that wait, one of them has to probe.
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
    const unheard = { outcome: null, outcomeAtMs: 0, isTaken: false };
    const known: Known = { ...send, ...unheard, messageTag, arrival, ...(refusals && { refusals }) };
    put(state.known, followUpKey(workflowId), known);
    const { lastTurn } = state.turns[job] ?? {};
    const turn: Turn = { owner: workflowId, latest: followUpKey(workflowId), ...(lastTurn && { lastTurn }) };
    put(state.turns, job, turn);
    this.#list({ workflowId, sendNumber, grantedAtMs: nowMs });
    this.#messages.push({ workflowId, answer: this.#granted(workflowId, known) });
  }

  #granted(workflowId: string, { runId, sendNumber, grantedAtMs, overAtMs }: Known): Granted {
    const send = { workflowId, runId, sendNumber };
    // If the grant has expired, the lease is over: the send must not start.
    const { leaseMs } = this.state.grants.find((grant) => isSame(grant, send)) ?? { leaseMs: 1 };
    const { lastTurn } = this.state.turns[jobKey(workflowId)] ?? {};
    return { kind: 'granted', runId, sendNumber, grantedAtMs, leaseMs, overAtMs, ...(lastTurn && { lastTurn }) };
  }

  #used(): number {
    const { grants, spent, refused } = this.state;
    return grants.length + spent.length + refused.length;
  }

  /** Slots that a lane may use now. A learned limit counts what the service accepted. */
  #freeSlots(lane: Lane): { ofBudget: number; ofService: number } {
    const { settings, grants, spent, learned, servicePause } = this.state;
    // Its share, also of a lower limit: the batch lane would wait for ever.
    const share = Math.floor((settings.reserve * this.limit) / Math.max(1, settings.limit));
    const reserve = lane === 'batch' ? share : 0;
    const ofBudget = this.configuredLimit - this.#used();
    // A probe finds out whether that still holds.
    const ofService = servicePause ? Infinity : (learned?.limit ?? Infinity) - grants.length - spent.length;
    return { ofBudget: ofBudget - reserve, ofService: ofService - reserve };
  }

  /** Why the whole project waits. */
  #reasonOfAll(nowMs: number): WaitReason | undefined {
    const { isCounting, servicePause } = this.state;
    if (isCounting) return 'counting';
    if (this.isPausedByOperator(nowMs)) return 'paused';
    // Until the probe has succeeded, so that a pause with many probes is one reason.
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

/** A message that is refused again and again while others are accepted waits, for longer each time. */
function holdOf({ refusals, outcomeAtMs }: Known): Pick<Waiter, 'held'> | undefined {
  if (!refusals || refusals.count < 2) return undefined;
  const { count, retryAfterMs = 0 } = refusals;
  const holdMs = Math.max(retryAfterMs, Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (count - 2)));
  return { held: { reason: refusals.reason, untilMs: outcomeAtMs + holdMs } };
}

/** Whether a waiter waits because the service refuses its message, while others are accepted. */
export function isHeld(held: Waiter['held'], nowMs: number): held is NonNullable<Waiter['held']> {
  return held !== undefined && held.untilMs > nowMs;
}

function isSame(a: SendId, b: SendId): boolean {
  return a.workflowId === b.workflowId && a.runId === b.runId && a.sendNumber === b.sendNumber;
}

/** Puts a key last: the first are forgotten first. */
function put<T>(record: Record<string, T>, key: string, value: T): void {
  Reflect.deleteProperty(record, key);
  record[key] = value;
}
