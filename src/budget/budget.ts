import { defined, iso } from '../common/index.js';
import {
  type Delivered,
  type Lane,
  lanes,
  type Refusal,
  type SendOutcome,
  type ShownPause,
  type TakeReply,
  type WaitReason,
} from '../contract/index.js';
import {
  type Ask,
  type Asker,
  type AskReply,
  type BudgetSettings,
  type EndReport,
  type FollowUpReport,
  type Full,
  type Granted,
  mayHaveArrived,
  type OutcomeReport,
  refusalOf,
  type Waiting,
} from '../protocol/index.js';
import {
  changesMs,
  forgetLimit,
  type GrantKind,
  LONGEST_PAUSE_MS,
  nextGrant,
  nextGrantAtMs,
  noteAccepted,
  noteOutcome,
  noteRefused,
  noteTurnEnded,
  type ServicePause,
  type Window,
} from './pace.js';
import {
  type BudgetState,
  followUpKey,
  type Grant,
  jobKey,
  type LatestSend,
  type MessageRefusals,
  MIN_LAST_SENDS,
  type SendId,
  type Turn,
  type TurnedAway,
  type Waiter,
} from './state.js';

export interface LineCapacity {
  /** In total: ten hours of a budget of 100. */
  total: number;
  /** For one job and lane. Further follow-ups are called back when there is a place. */
  forJob: number;
}
const LINE_CAPACITY: LineCapacity = { total: 1_000, forJob: 10 };
/** The batch lane's share of the places, which leaves some for interactive follow-ups. */
const BATCH_SHARE = 0.9;
/** The share for those whose job is busy, which leaves some for messages that can be sent. */
const BUSY_SHARE = 0.5;

/** How many at the front learn at once that their reason to wait has changed. Others learn it when they ask. */
const MAX_INFORMED = 20;
/** When a follow-up without a place asks again, the first time. */
const JOB_LINE_RETRY_MS = 60_000;
const FULL_RETRY_MS = 900_000;
/** So many follow-ups without a place for their job are called back when there is one. The others ask by themselves. */
const MAX_TURNED_AWAY = 200;
/** While interactive follow-ups wait, every tenth grant goes to the batch lane. */
const BATCH_EVERY = 10;
const MAX_LAST_SENDS = 1_000;
/** How long a message waits after it was refused alone, and the longest: it grows each time. */
const FIRST_DELAY_MS = 30_000;
const LONGEST_DELAY_MS = 3_600_000;
const DELAY_GROWTH = 3;
/** How long after the last byte the job may still show the previous turn: the default of `settleTime`. */
const SETTLE_MS = 120_000;
/** An ended follow-up keeps its turn for lease, drain and settle time. Only a signal sent by hand can ask for more. */
const LONGEST_KEPT_TURN_MS = 14_400_000;
/** Interval at which follow-ups that block others' jobs are checked: one may have been terminated. */
const CHECK_OWNERS_MS = 600_000;

/** A signal to a follow-up. Without a reply it is a wake-up: if that fails, the follow-up does not run. */
export interface FollowUpSignal {
  workflowId: string;
  reply?: Granted | Waiting;
}

/** A follow-up in Temporal's list that may have sent. */
export interface ListedSend {
  workflowId: string;
  isRunning: boolean;
  /** It is waiting: it has not sent, unless its state lags, or will send again. */
  isWaiting?: boolean;
  /** When its last send began, at the earliest. Default: it may have begun just now. */
  sentAtMs?: number;
}

/** New settings. Missing ones stay unchanged. */
export type SettingsChange = Partial<Omit<BudgetSettings, 'marginMs'>>;

/**
 * The rules of a project's budget, pure, with the time as an argument. {@link advance} follows every event; it
 * depends on state and time alone: a replay may deliver an event in a later task, and must decide the same.
 */
export class Budget {
  #signals: FollowUpSignal[] = [];

  constructor(
    readonly state: BudgetState,
    private readonly capacity = LINE_CAPACITY,
  ) {}

  /** Messages in a window, up to the worker's maximum. */
  get limit(): number {
    return Math.min(this.state.settings.limit, this.state.maxLimit);
  }

  /** Returns the pending signals and clears them. */
  flushSignals(): FollowUpSignal[] {
    return this.#signals.splice(0);
  }

  ask(nowMs: number, ask: Ask): AskReply {
    this.#expire(nowMs);
    Object.assign(this.state, { maxLimit: ask.maxLimit, drainMs: ask.drainMs });
    const recalled = this.#recall(ask);
    if (recalled) return recalled;
    const { workflowId, refusal } = ask;
    this.#forgetTurnedAway(workflowId);
    const full = this.#enterLine(ask, nowMs);
    const waiter = this.#waiterOf(workflowId);
    // A probe decides about a pause that has already begun, and a read just after a refusal says nothing new.
    if (refusal && waiter && nowMs - (waiter.refusals?.lastAtMs ?? 0) > FIRST_DELAY_MS) {
      const { pause } = this.state.pace;
      const isAlone = this.#noteRefusal(waiter, { ...ask, refusal }, nowMs);
      if (!isAlone && !pause) noteRefused(this.state.pace, { ...ask, reason: refusal }, this.#window(), nowMs);
      this.#sort();
    }
    this.advance(nowMs);
    // The reply replaces a pending signal.
    this.#signals = this.#signals.filter((signal) => signal.workflowId !== workflowId || !signal.reply);
    const granted = this.#recall(ask);
    if (granted) return granted;
    if (full) {
      this.#leaveLine(workflowId);
      if (full.reason === 'job-busy') this.#turnAway(ask);
      return full;
    }
    return waiter && this.state.waiters.includes(waiter)
      ? this.#standing(nowMs, waiter, this.line(nowMs))
      : { kind: 'ended' };
  }

  receive(nowMs: number, report: FollowUpReport): void {
    this.#expire(nowMs);
    if (report.kind === 'outcome') this.#receiveOutcome(nowMs, report);
    else this.#receiveEnd(nowMs, report);
    this.advance(nowMs);
  }

  /** Handles a signal whose follow-up had ended without a report. */
  noteClosed(nowMs: number, { workflowId, reply }: FollowUpSignal): void {
    this.#expire(nowMs);
    const latest = this.state.latestSends[followUpKey(workflowId)];
    // A wake-up concerns no place, and a run that started since may have one.
    if (reply) this.#leaveLine(workflowId, reply.runId);
    this.#forgetTurnedAway(workflowId);
    if (reply?.kind === 'granted' && !latest?.isClaimed) this.#free({ workflowId, ...reply }, nowMs);
    const turn = this.state.turns[jobKey(workflowId)];
    if (turn?.owner === workflowId) turn.untilMs ??= Math.max(nowMs, latest?.overAtMs ?? 0) + SETTLE_MS;
    this.advance(nowMs);
  }

  /**
   * Books sends that this budget does not remember, the oldest first, each with an unknown outcome. As evidence they are
   * as new as the list.
   *
   * @param more.others number of further sends, of which nothing is known
   * @param more.leaseMs time within which a send ends or never starts
   * @param more.drainMs how long bytes of sends in progress may still arrive
   */
  book(
    nowMs: number,
    sends: readonly ListedSend[],
    more: { others?: number; leaseMs?: number; drainMs?: number } = {},
  ): void {
    const { state } = this;
    const { others = 0, leaseMs = 0, drainMs = 0 } = more;
    const atMs = nowMs + drainMs;
    this.#expire(nowMs);
    state.spent.push(...Array.from({ length: others }, () => atMs));
    for (const { workflowId, isRunning, isWaiting, sentAtMs = nowMs } of sends) {
      const usedFromMs = Math.min(nowMs, sentAtMs + leaseMs + state.settings.marginMs) + drainMs;
      if (isWaiting) {
        this.#useSlot(usedFromMs, 'unknown');
        this.#list({ workflowId, sendNumber: 1, grantedAtMs: sentAtMs });
        continue;
      }
      const latest = state.latestSends[followUpKey(workflowId)];
      const wasReported = latest?.outcome === 'sent';
      if (latest?.outcome === 'rejected' || (wasReported && !isRunning)) continue;
      // Its lease is over, and the outcome of it or of a later send may never be reported again.
      state.grants = state.grants.filter((grant) => grant.workflowId !== workflowId);
      // A place in line may be older than a reset, and its send may have been made: the follow-up asks again.
      const waiter = this.#waiterOf(workflowId);
      const sendNumber = Math.max(latest?.sendNumber ?? 1, waiter?.sendNumber ?? 1);
      if (!wasReported)
        this.#bookSend(atMs, { workflowId, runId: '', sendNumber }, 'unknown', {
          waiter,
          usedFromMs,
          listedAtMs: sentAtMs,
        });
      if (waiter) this.#leaveLine(workflowId);
      if (waiter) this.#signals.push({ workflowId });
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
    const notified = new Set([...this.state.waiters, ...this.#signals].map(({ workflowId }) => workflowId));
    // All: those that had a place ask again by themselves only after hours.
    const lost = workflowIds.filter((workflowId) => !notified.has(workflowId));
    this.#signals.push(...lost.map((workflowId) => ({ workflowId })));
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
    forgetLimit(state.pace);
    this.advance(nowMs);
  }

  /**
   * Takes slots for messages that other software sends: all or none. Those in line keep theirs. A key that has taken
   * slots gets the same reply again.
   */
  take(nowMs: number, { key, count }: { key: string; count: number }): TakeReply {
    this.#expire(nowMs);
    const { state } = this;
    const workflowId = `take/${key}`;
    const latest = state.latestSends[followUpKey(workflowId)];
    if (latest) return { taken: true, count: latest.sendNumber, takenAt: iso(latest.grantedAtMs) };
    const inLine = this.line(nowMs);
    const line = inLine.filter((waiter) => !isDelayed(waiter, nowMs));
    const ofBatch = line.filter(({ lane }) => lane === 'batch').length;
    const freeForBatch = Math.max(0, this.#freeSlots('batch'));
    const before = line.length - ofBatch + Math.min(ofBatch, freeForBatch);
    const freeAtMs = this.#slotAtMs(nowMs, before + count - 1, 'interactive');
    const reason = this.#reasonOfAll(nowMs, inLine) ?? (freeAtMs === nowMs ? undefined : 'slot');
    if (reason) {
      // The end of a pause is not known.
      const possibleAt = reason === 'slot' && freeAtMs !== undefined ? iso(freeAtMs) : undefined;
      return defined({ taken: false, count, waitReason: reason, possibleAt } as const);
    }
    state.spent.push(...Array.from({ length: count }, () => nowMs));
    const send = { runId: '', sendNumber: count, grantedAtMs: nowMs, overAtMs: nowMs };
    const sent = { outcome: 'sent', outcomeAtMs: nowMs, messageTag: '', isClaimed: true } as const;
    put(state.latestSends, followUpKey(workflowId), { ...send, ...sent });
    this.#list({ workflowId, sendNumber: count, grantedAtMs: nowMs, outcomeAtMs: nowMs, outcome: 'taken' });
    return { taken: true, count, takenAt: iso(nowMs) };
  }

  /** Whether another run of the follow-up has delivered the message, as far as this budget remembers. */
  wasDelivered({ workflowId, runId, messageTag }: Asker): Delivered {
    const latest = this.state.latestSends[followUpKey(workflowId)];
    const isOther = latest === undefined || latest.runId === runId || !['', messageTag].includes(latest.messageTag);
    if (isOther || (latest.sendNumber === 1 && !mayHaveArrived(latest.outcome))) return 'no';
    return latest.outcome === 'sent' && latest.messageTag === messageTag ? 'yes' : 'unknown';
  }

  /** The number of slots that a key has taken, if any. */
  takenBy(key: string): number | undefined {
    return this.state.latestSends[followUpKey(`take/${key}`)]?.sendNumber;
  }

  pause(nowMs: number, pause: { untilMs?: number; note?: string }): void {
    this.state.operatorPause = { ...pause, sinceMs: nowMs };
    this.advance(nowMs);
  }

  /** Ends the operator's pause, and tries at once what the service has refused. */
  resume(nowMs: number): void {
    const { pace, waiters, latestSends } = this.state;
    delete this.state.operatorPause;
    forgetLimit(pace);
    if (pace.pause) Object.assign(pace.pause, { untilMs: Math.min(pace.pause.untilMs, nowMs), retryAtMs: nowMs });
    for (const signal of [...waiters, ...Object.values(latestSends)]) delete signal.refusals;
    this.#sort();
    this.advance(nowMs);
  }

  /** Grants what can be granted now, and informs the front of the line of new reasons to wait. */
  advance(nowMs: number): void {
    const { state } = this;
    this.#expire(nowMs);
    for (let next = this.#next(nowMs); next; next = this.#next(nowMs)) this.#grant(nowMs, next.waiter, next.kind);
    this.#checkOwners(nowMs);
    this.#callBack(nowMs);
    const line = this.line(nowMs);
    const inLine = new Set(line);
    const first = [...line, ...state.waiters.filter((waiter) => !inLine.has(waiter))].slice(0, MAX_INFORMED);
    for (const waiter of first) {
      if (waiter.lastReason === this.#reason(nowMs, waiter, line)) continue;
      this.#signals.push({ workflowId: waiter.workflowId, reply: this.#standing(nowMs, waiter, line) });
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
  }

  /** When something changes by itself that a follow-up waits for, or, for people, when an operator's pause ends. */
  nextChangeMs(nowMs: number): number | undefined {
    const { waiters, grants, turns, operatorPause, pace, checkOwnersAtMs } = this.state;
    // For people and metrics, the end of a pause is news even if nobody waits.
    const pauseEndsMs = [operatorPause?.untilMs ?? Infinity, pace.pause?.untilMs ?? Infinity];
    const ofWaiters = () => [
      ...changesMs(pace),
      ...this.slotEnds(),
      ...grants.flatMap(({ grantedAtMs, leaseMs, overAtMs }) => [grantedAtMs + leaseMs, overAtMs]),
      ...waiters.flatMap((waiter) => [turns[waiter.job]?.untilMs ?? Infinity, delayedUntilMs(waiter)]),
      this.#waitedFor().length > 0 ? checkOwnersAtMs : Infinity,
    ];
    const times = [...pauseEndsMs, ...(waiters.length > 0 ? ofWaiters() : [])];
    const next = times.reduce((first, ms) => (ms > nowMs && ms < first ? ms : first), Infinity);
    return Number.isFinite(next) ? next : undefined;
  }

  /** When each used slot becomes free, in order. */
  slotEnds(): number[] {
    const { spent, refused, grants, settings } = this.state;
    const slotMs = settings.windowMs + settings.marginMs;
    const froms = [...spent, ...refused, ...grants.map(({ overAtMs }) => overAtMs)];
    return froms.map((fromMs) => fromMs + slotMs).sort((a, b) => a - b);
  }

  /**
   * Waiters whose job's turn is free, one for each job and lane, in the order of their grants. A message that the service
   * refuses does not block others from its job.
   */
  line(nowMs: number): Waiter[] {
    const { waiters, grantsSinceBatch } = this.state;
    const free = waiters.filter((waiter) => !waiter.isJobAtWork && !this.#hasOtherTurn(waiter));
    const firsts = new Map<string, Waiter>();
    for (const waiter of free) {
      const before = firsts.get(jobLineOf(waiter));
      if (!before || (isDelayed(before, nowMs) && !isDelayed(waiter, nowMs))) firsts.set(jobLineOf(waiter), waiter);
    }
    const inLine = new Set(firsts.values());
    const ready = free.filter((waiter) => inLine.has(waiter));
    const first: Lane = grantsSinceBatch >= BATCH_EVERY - 1 ? 'batch' : 'interactive';
    return [...ready.filter(({ lane }) => lane === first), ...ready.filter(({ lane }) => lane !== first)];
  }

  /** When the waiter at this place, from 0, can expect its send; `undefined` if that is not known. */
  expectedAtMs(nowMs: number, index: number, lane: Lane): number | undefined {
    const { pace } = this.state;
    const slotAtMs = this.#slotAtMs(nowMs, index, lane);
    if (slotAtMs === undefined || !pace.isSpaced) return slotAtMs;
    return Math.max(slotAtMs, nextGrantAtMs(pace) + index * (pace.spacingMs ?? 0));
  }

  /** When so many slots and one more are free; `undefined` if that is not known. */
  #slotAtMs(nowMs: number, index: number, lane: Lane): number | undefined {
    const free = this.#freeSlots(lane);
    return index < free ? nowMs : this.slotEnds()[index - free];
  }

  pauseOf(nowMs: number, line: readonly Waiter[]): ShownPause | undefined {
    const { operatorPause } = this.state;
    if (this.isPausedByOperator(nowMs)) {
      const { untilMs, note } = operatorPause ?? {};
      return defined({ by: 'operator', until: untilMs === undefined ? undefined : iso(untilMs), note } as const);
    }
    const pause = this.servicePause(nowMs, line);
    return pause && defined({ by: 'service', until: iso(pause.untilMs), statusCode: pause.statusCode } as const);
  }

  /**
   * The reply to an ask for a send that was already granted. It also hands the turn, a listed send or a signalled
   * grant to the run that asks.
   */
  #recall({ workflowId, runId, sendNumber, messageTag, mayHaveSent, startedAtMs }: Ask): AskReply | undefined {
    const latest = this.state.latestSends[followUpKey(workflowId)];
    const remembersAll = startedAtMs > this.state.rememberedSinceMs;
    if (!latest) {
      if (!mayHaveSent || remembersAll) return undefined;
      const never = { outcome: 'unknown', outcomeAtMs: 0, grantedAtMs: 0, overAtMs: 0, isLatest: false } as const;
      return { kind: 'earlierSend', runId, grantedTo: '', sendNumber, ...never, isSameMessage: false, remembersAll };
    }
    if (latest.ended && latest.runId === runId) return { kind: 'ended' };
    if (latest.messageTag !== '' && latest.messageTag !== messageTag) return { kind: 'otherMessage' };
    // Temporal's list does not show how many sends a follow-up has made. Each run that may have sent gets this reply
    // once.
    if (latest.isFromList && mayHaveSent && latest.runId !== runId)
      Object.assign(latest, { runId, sendNumber: Math.max(latest.sendNumber, sendNumber) });
    if (sendNumber > latest.sendNumber) return undefined;
    const { outcome, outcomeAtMs, grantedAtMs, overAtMs } = latest;
    if (latest.runId === runId && latest.sendNumber === sendNumber && outcome === null) {
      latest.isClaimed = true;
      return this.#granted(workflowId, latest);
    }
    const turn = this.state.turns[jobKey(workflowId)];
    const isSameMessage = latest.messageTag === messageTag;
    // Others may since have had the turn, in a time that this budget has yet to count or does not remember.
    const { isCounting, rememberedSinceMs } = this.state;
    const isKnownSince = !isCounting && latest.grantedAtMs >= rememberedSinceMs;
    const isLast = isKnownSince && turn?.latest === followUpKey(workflowId);
    // A reused id may be for another message.
    const isLatest = isLast && (isSameMessage || mayHaveSent);
    if (turn && isLatest && mayHaveArrived(outcome)) {
      // The follow-up watches the job again, and no other may send meanwhile.
      Object.assign(turn, { owner: workflowId, runId });
      delete turn.untilMs;
    }
    const send = {
      grantedTo: latest.runId,
      sendNumber: latest.sendNumber,
      outcome,
      outcomeAtMs,
      grantedAtMs,
      overAtMs,
    };
    return { kind: 'earlierSend', runId, ...send, isLatest, isSameMessage, remembersAll };
  }

  /**
   * Puts the follow-up in line. Returns `full` if it has no place: `ask` then removes it unless it is granted at once,
   * because waiters for a job or another lane do not block a free slot.
   */
  #enterLine(ask: Ask, nowMs: number): Full | undefined {
    const { workflowId, runId, sendNumber, lane, leaseMs, drainMs, messageTag, startedAtMs, jobIs } = ask;
    const { waiters, latestSends, turns, turnedAway } = this.state;
    const current = { runId, sendNumber, lane, leaseMs, drainMs, messageTag, startedAtMs };
    const waiter = this.#waiterOf(workflowId);
    const job = jobKey(workflowId);
    if (jobIs === 'at-rest') this.#forgetWork(job);
    if (waiter) {
      // A late copy of an ask must not make it one that watches, because nobody may receive the reply.
      Object.assign(waiter, current);
      return undefined;
    }
    const hasOtherTurn = this.#hasOtherTurn({ workflowId, job });
    // Another follow-up reports the end of its turn, so nobody need watch for it.
    const isJobAtWork = jobIs === 'at-work' && !hasOtherTurn;
    // A follow-up that had a place or has the turn always gets one: others may wait for that turn.
    const latest = latestSends[followUpKey(workflowId)];
    const hasPlace = latest !== undefined || turns[job]?.owner === workflowId;
    // Those who started before and found no place keep theirs.
    const jobLine = jobLineOf({ job, lane });
    const isBefore = (each: TurnedAway) =>
      jobLineOf(each) === jobLine && each.startedAtMs < startedAtMs && isExpected(each, nowMs);
    const ahead = waiters.filter((each) => jobLineOf(each) === jobLine).length + turnedAway.filter(isBefore).length;
    const share = (lane === 'batch' ? BATCH_SHARE : 1) * (isJobAtWork || hasOtherTurn ? BUSY_SHARE : 1);
    const isFull = !hasPlace && waiters.length >= share * this.capacity.total;
    const isJobLineFull = !hasPlace && ahead >= this.capacity.forJob;
    waiters.push({
      workflowId,
      job,
      ...current,
      lastReason: 'slot',
      ...(isJobAtWork && { isJobAtWork }),
      ...(latest?.refusals && { refusals: latest.refusals }),
    });
    this.#sort();
    const full = { kind: 'full', runId, sendNumber } as const;
    if (isJobLineFull) return { ...full, reason: 'job-busy', retryMs: JOB_LINE_RETRY_MS };
    return isFull ? { ...full, reason: 'queue-full', retryMs: FULL_RETRY_MS } : undefined;
  }

  /** Whether another follow-up has the turn of its job. */
  #hasOtherTurn({ workflowId, job }: Pick<Waiter, 'workflowId' | 'job'>): boolean {
    return (this.state.turns[job]?.owner ?? workflowId) !== workflowId;
  }

  /** The job rests, or a follow-up will report the end of its turn. */
  #forgetWork(job: string): void {
    for (const waiter of this.state.waiters) if (waiter.job === job) delete waiter.isJobAtWork;
  }

  #turnAway({ workflowId, lane, startedAtMs }: Ask): void {
    const { turnedAway } = this.state;
    turnedAway.push({ workflowId, job: jobKey(workflowId), lane, startedAtMs });
    turnedAway.sort((a, b) => a.startedAtMs - b.startedAtMs).splice(MAX_TURNED_AWAY);
  }

  #forgetTurnedAway(workflowId: string): void {
    this.state.turnedAway = this.state.turnedAway.filter((each) => each.workflowId !== workflowId);
  }

  /** Makes those without a place for their job ask again, the oldest first, as places become free. */
  #callBack(nowMs: number): void {
    const { state, capacity } = this;
    if (state.turnedAway.length === 0) return;
    state.turnedAway = state.turnedAway.filter((each) => isExpected(each, nowMs));
    const sizes = new Map<string, number>();
    const sizeOf = (each: InJobLine) => sizes.get(jobLineOf(each)) ?? 0;
    const add = (each: InJobLine) => void sizes.set(jobLineOf(each), sizeOf(each) + 1);
    for (const each of [...state.waiters, ...state.turnedAway.filter(({ calledAtMs }) => calledAtMs)]) add(each);
    for (const each of state.turnedAway.filter(({ calledAtMs }) => !calledAtMs)) {
      if (sizeOf(each) >= capacity.forJob) continue;
      each.calledAtMs = nowMs;
      add(each);
      this.#signals.push({ workflowId: each.workflowId });
    }
  }

  #receiveOutcome(nowMs: number, report: OutcomeReport): void {
    const { workflowId, runId, sendNumber, outcome } = report;
    const { state } = this;
    // After a reset of the budget, an ask may be in line again although its send is over.
    state.waiters = state.waiters.filter(
      (each) => each.workflowId !== workflowId || each.runId !== runId || each.sendNumber > sendNumber,
    );
    const latest = state.latestSends[followUpKey(workflowId)];
    const grant = state.grants.find((each) => isSame(each, report));
    const atMs = Math.min(nowMs, Math.max(report.atMs, grant?.grantedAtMs ?? 0));
    // A reset run's repeated report adds nothing.
    const isFirstReport = latest?.outcome === null && latest.runId === runId && latest.sendNumber === sendNumber;
    const isNew = !grant && !(latest?.runId === runId && latest.sendNumber >= sendNumber);
    if (outcome === 'notSent') this.#free(report, atMs);
    else this.#note(report, outcome, atMs);
    if (grant && outcome !== 'notSent')
      this.#spend(grant, outcome === 'unknown' ? grant.overAtMs : Math.min(atMs, grant.overAtMs), outcome);
    else if (isNew && outcome !== 'notSent') {
      // Granted by an earlier budget, or by a part of this one's past that a reset undid. It is not known how long the
      // bytes may still arrive, so the latest worker's drain applies.
      this.#bookSend(outcome === 'unknown' ? Math.max(atMs, nowMs + state.drainMs) : atMs, report, outcome);
      const turn = state.turns[jobKey(workflowId)];
      const isOld = turn !== undefined && (state.latestSends[turn.latest]?.grantedAtMs ?? 0) > atMs;
      if (turn?.owner === undefined && !isOld && mayHaveArrived(outcome)) {
        const { lastTurn } = turn ?? {};
        const key = followUpKey(workflowId);
        put(state.turns, jobKey(workflowId), { owner: workflowId, latest: key, ...(lastTurn && { lastTurn }) });
      }
    }
    const isLatest = sendNumber >= (latest?.sendNumber ?? 0);
    if (isFirstReport || (isNew && isLatest)) this.#learn(report, isFirstReport ? latest : undefined, nowMs);
  }

  /** Draws conclusions about the service from an outcome. */
  #learn(report: OutcomeReport, granted: LatestSend | undefined, nowMs: number): void {
    const { workflowId, outcome, refusal: ofRead } = report;
    const { pace, counts, latestSends } = this.state;
    const { grantedAtMs = 0, probe } = granted ?? {};
    if (outcome === 'limited') counts.limited += 1;
    const isOutage = outcome !== 'notSent' && noteOutcome(pace, outcome === 'unknown', nowMs);
    if (outcome === 'sent') return noteAccepted(pace, { grantedAtMs, probe }, this.#window(), nowMs);
    const reason = isOutage ? 'outage' : (refusalOf(outcome) ?? ofRead);
    if (!reason) return;
    const latest = latestSends[followUpKey(workflowId)];
    const isRepeated = latest?.refusals?.reason === reason;
    const refusal = { ...report, refusal: reason };
    const isAlone = latest && !isOutage && this.#noteRefusal(latest, refusal, nowMs);
    // A report that was lost is made again, which may be after the next ask.
    const waiter = this.#waiterOf(workflowId);
    if (waiter && !isOutage) {
      this.#noteRefusal(waiter, refusal, nowMs);
      this.#sort();
    }
    const isProbeOfLimit = probe !== undefined && reason === 'limited';
    if (isProbeOfLimit || !isAlone) noteRefused(pace, { ...report, reason, probe, isRepeated }, this.#window(), nowMs);
  }

  /** Notes the refusal of a message. Returns whether the service has accepted others since it refused this one before. */
  #noteRefusal(
    signal: { refusals?: MessageRefusals },
    { refusal: reason, statusCode, retryAfterMs = 0 }: { refusal: Refusal; statusCode?: number; retryAfterMs?: number },
    nowMs: number,
  ): boolean {
    const { lastAtMs = 0, retryAfterMs: lastRetryAfterMs = 0 } = signal.refusals ?? {};
    const earlier = signal.refusals?.reason === reason ? signal.refusals : undefined;
    const { accepted } = this.state.pace;
    // A limit refuses some of the messages that are under way together, and may refuse one of them again.
    const isLimited = reason === 'limited';
    const acceptedMs = isLimited ? accepted.grantedAtMs : accepted.atMs;
    const isAlone = earlier !== undefined && earlier.count >= (isLimited ? 2 : 1) && earlier.lastAtMs < acceptedMs;
    const count = (earlier?.count ?? 0) + 1;
    signal.refusals = defined({
      reason,
      count,
      lastAtMs: nowMs,
      statusCode,
      // A read may get a shorter one than the send before it.
      retryAfterMs: Math.max(retryAfterMs, lastAtMs + lastRetryAfterMs - nowMs) || undefined,
      isAlone: isAlone || undefined,
    });
    return isAlone;
  }

  /** At the position of its start, but behind whoever started while the service refused it and accepted others. */
  #sort(): void {
    const sortMs = (waiter: Waiter) =>
      Math.max(waiter.startedAtMs, waiter.refusals?.isAlone ? delayedUntilMs(waiter) : 0);
    const times = new Map(this.state.waiters.map((waiter) => [waiter, sortMs(waiter)]));
    this.state.waiters.sort((a, b) => (times.get(a) ?? 0) - (times.get(b) ?? 0));
  }

  #receiveEnd(nowMs: number, { workflowId, runId, turnUntilMs, lastTurn }: EndReport): void {
    const { latestSends, grants, turns } = this.state;
    // The run that replaced it may already have the place.
    this.#leaveLine(workflowId, runId);
    this.#forgetTurnedAway(workflowId);
    for (const grant of grants.filter((each) => each.workflowId === workflowId && each.runId === runId)) {
      this.#free(grant, nowMs);
    }
    const latest = latestSends[followUpKey(workflowId)];
    if (latest?.runId === runId) {
      latest.ended = true;
      delete latest.refusals;
    }
    const turn = turns[jobKey(workflowId)];
    if (turn?.owner !== workflowId || (turn.runId ?? runId) !== runId) return;
    if (lastTurn) {
      turn.lastTurn = lastTurn;
      noteTurnEnded(this.state.pace);
    }
    // Another run's send may still arrive.
    const isOpen = latest && latest.runId !== runId && mayHaveArrived(latest.outcome);
    const untilMs = turnUntilMs ?? (isOpen && !lastTurn ? latest.overAtMs + SETTLE_MS : undefined);
    if (untilMs === undefined) delete turn.owner;
    else turn.untilMs = Math.min(untilMs, nowMs + LONGEST_KEPT_TURN_MS);
  }

  #waiterOf(workflowId: string): Waiter | undefined {
    return this.state.waiters.find((each) => each.workflowId === workflowId);
  }

  /** @param runId only if this run asked for the place */
  #leaveLine(workflowId: string, runId?: string): void {
    const leaves = (each: Waiter) => each.workflowId === workflowId && (runId === undefined || each.runId === runId);
    this.state.waiters = this.state.waiters.filter((each) => !leaves(each));
  }

  /** Follow-ups whose turn blocks others and has no known end. */
  #waitedFor(): string[] {
    const { waiters, turns } = this.state;
    const owners = waiters.flatMap((waiter) => {
      const { owner, untilMs } = turns[waiter.job] ?? {};
      return owner !== undefined && untilMs === undefined && this.#hasOtherTurn(waiter) ? [owner] : [];
    });
    return [...new Set(owners)];
  }

  #checkOwners(nowMs: number): void {
    const owners = this.#waitedFor();
    if (owners.length === 0 || nowMs < this.state.checkOwnersAtMs) return;
    this.state.checkOwnersAtMs = nowMs + CHECK_OWNERS_MS;
    this.#signals.push(...owners.map((workflowId) => ({ workflowId })));
  }

  /** Ends a send. Its slot stays in use for a window from `fromMs`. */
  #spend(grant: Grant, fromMs: number, outcome: SendOutcome = 'unknown'): void {
    this.state.grants = this.state.grants.filter((each) => each !== grant);
    this.#useSlot(fromMs, outcome);
  }

  #useSlot(fromMs: number, outcome: SendOutcome): void {
    (refusalOf(outcome) ? this.state.refused : this.state.spent).push(fromMs);
  }

  /** Frees the slot of a send that was not made. After an outage, the report may come after the lease. */
  #free(send: SendId, atMs: number): void {
    const { grants, spent } = this.state;
    const latest = this.state.latestSends[followUpKey(send.workflowId)];
    const isGranted = (each: Grant) => isSame(each, send);
    const isUnreported =
      latest?.outcome === null && latest.runId === send.runId && latest.sendNumber === send.sendNumber;
    const slot = isUnreported && !grants.some(isGranted) ? spent.indexOf(latest.overAtMs) : -1;
    if (slot >= 0) spent.splice(slot, 1);
    this.state.grants = grants.filter((each) => !isGranted(each));
    this.#note(send, 'notSent', atMs);
  }

  /** Records the outcome of a send, unless one is recorded. A send that cannot have arrived gives up the job's turn. */
  #note(
    { workflowId, runId, sendNumber, statusCode }: SendId & { statusCode?: number },
    outcome: SendOutcome,
    atMs: number,
  ): void {
    const shown = this.state.lastSends.findLast((each) => each.workflowId === workflowId);
    if (shown?.sendNumber === sendNumber && !shown.outcome)
      Object.assign(shown, defined({ outcome, outcomeAtMs: atMs, statusCode }));
    const latest = this.state.latestSends[followUpKey(workflowId)];
    if (latest?.runId !== runId || latest.sendNumber !== sendNumber) return;
    if (latest.outcome === null) Object.assign(latest, { outcome, outcomeAtMs: atMs });
    const turn = this.state.turns[jobKey(workflowId)];
    if (turn?.owner === workflowId && !mayHaveArrived(latest.outcome)) delete turn.owner;
  }

  /**
   * Counts a send that this budget did not grant. It becomes the latest of its follow-up only if no later one is known
   * and if it may have arrived; otherwise an unknown later send may exist.
   *
   * @param atMs when it may have been made, at the latest
   * @param more.usedFromMs start of the window in which its slot is in use. Default: `atMs`
   * @param more.listedAtMs its time in the list of sends. Default: `atMs`
   */
  #bookSend(
    atMs: number,
    send: SendId,
    outcome: SendOutcome,
    {
      waiter,
      usedFromMs = atMs,
      listedAtMs = atMs,
    }: { waiter?: Waiter | undefined; usedFromMs?: number; listedAtMs?: number } = {},
  ): void {
    const { workflowId, runId, sendNumber } = send;
    const { state } = this;
    const latest = state.latestSends[followUpKey(workflowId)];
    const isUnderWay = state.grants.some((grant) => grant.workflowId === workflowId);
    if (!isUnderWay && mayHaveArrived(outcome) && sendNumber >= (latest?.sendNumber ?? 0)) {
      const isFromList = runId === '' || (latest?.isFromList === true && outcome !== 'sent');
      put(state.latestSends, followUpKey(workflowId), {
        ...{ runId, sendNumber, outcome },
        messageTag: waiter?.messageTag ?? latest?.messageTag ?? '',
        ...{ grantedAtMs: atMs, overAtMs: atMs, outcomeAtMs: atMs, isClaimed: true },
        ...(isFromList && ({ isFromList } as const)),
      });
    }
    this.#useSlot(usedFromMs, outcome);
    // Temporal's list does not show what the service answered.
    this.#list({ workflowId, sendNumber, grantedAtMs: listedAtMs, ...(runId && { outcomeAtMs: listedAtMs, outcome }) });
  }

  #list(send: BudgetState['lastSends'][number]): void {
    const maxShown = Math.min(MAX_LAST_SENDS, Math.max(MIN_LAST_SENDS, this.state.settings.limit));
    this.state.lastSends = [...this.state.lastSends, send].slice(-maxShown);
  }

  isPausedByOperator(nowMs: number): boolean {
    const { operatorPause } = this.state;
    return operatorPause !== undefined && (operatorPause.untilMs ?? Infinity) > nowMs;
  }

  #next(nowMs: number): { waiter: Waiter; kind: GrantKind } | undefined {
    const { grants, isCounting, pace } = this.state;
    if (isCounting || this.isPausedByOperator(nowMs)) return undefined;
    const underWay = grants.filter(({ grantedAtMs, leaseMs }) => grantedAtMs + leaseMs > nowMs).length;
    const kind = nextGrant(pace, underWay, nowMs);
    if (!kind) return undefined;
    const open = lanes.filter((lane) => this.#freeSlots(lane) > 0);
    const line = this.line(nowMs).filter((waiter) => open.includes(waiter.lane) && !isDelayed(waiter, nowMs));
    const waiter = kind === 'due' ? probeOf(line) : line[0];
    return waiter && { waiter, kind };
  }

  #grant(nowMs: number, waiter: Waiter, kind: GrantKind): void {
    const { workflowId, runId, sendNumber, job, lane, leaseMs, drainMs, messageTag, refusals } = waiter;
    const { state } = this;
    const probe = kind !== 'free' && { probe: kind };
    state.waiters = state.waiters.filter((each) => each !== waiter);
    const overAtMs = nowMs + leaseMs + drainMs;
    state.grants.push({ workflowId, runId, sendNumber, grantedAtMs: nowMs, leaseMs, overAtMs });
    state.counts.grants += 1;
    state.grantsSinceBatch = lane === 'batch' ? 0 : state.grantsSinceBatch + 1;
    const send = { runId, sendNumber, grantedAtMs: nowMs, overAtMs };
    const unreported = { outcome: null, outcomeAtMs: 0, isClaimed: false };
    const latest: LatestSend = { ...send, ...unreported, messageTag, ...(refusals && { refusals }), ...probe };
    put(state.latestSends, followUpKey(workflowId), latest);
    const { lastTurn } = state.turns[job] ?? {};
    const turn: Turn = { owner: workflowId, latest: followUpKey(workflowId), ...(lastTurn && { lastTurn }) };
    put(state.turns, job, turn);
    this.#forgetWork(job);
    this.#list({ workflowId, sendNumber, grantedAtMs: nowMs });
    this.#signals.push({ workflowId, reply: this.#granted(workflowId, latest) });
  }

  #granted(workflowId: string, { runId, sendNumber, grantedAtMs, overAtMs }: LatestSend): Granted {
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

  #window(): Window {
    return { windowMs: this.state.settings.windowMs, limit: this.limit, used: this.state.spent.length };
  }

  /** Slots that a lane may use now. */
  #freeSlots(lane: Lane): number {
    const { settings } = this.state;
    // Proportional to a lower limit, so that the batch lane does not wait for ever.
    const share = Math.floor((settings.reserve * this.limit) / Math.max(1, settings.limit));
    return this.limit - this.#used() - (lane === 'batch' ? share : 0);
  }

  /**
   * The service's pause. It lasts until a probe is accepted, but once its time is over only if somebody in line may
   * probe. It ends when the first of these may, and has a slot.
   *
   * @param line of {@link line}
   */
  servicePause(nowMs: number, line: readonly Waiter[]): ServicePause | undefined {
    const { pause } = this.state.pace;
    if (!pause) return undefined;
    if (line.length === 0) return pause.untilMs > nowMs ? pause : undefined;
    const waiting = lanes.filter((lane) => line.some((waiter) => waiter.lane === lane));
    const slotAtMs = Math.min(...waiting.map((lane) => this.#slotAtMs(nowMs, 0, lane) ?? nowMs));
    return { ...pause, untilMs: Math.max(pause.untilMs, Math.min(...line.map(delayedUntilMs)), slotAtMs) };
  }

  /** The reason why the whole project waits. */
  #reasonOfAll(nowMs: number, line: readonly Waiter[]): WaitReason | undefined {
    if (this.state.isCounting) return 'counting';
    if (this.isPausedByOperator(nowMs)) return 'paused';
    return this.servicePause(nowMs, line)?.reason;
  }

  #reason(nowMs: number, waiter: Waiter, line: readonly Waiter[]): WaitReason {
    const ofAll = this.#reasonOfAll(nowMs, line);
    if (ofAll) return ofAll;
    if (waiter.refusals && isDelayed(waiter, nowMs)) return waiter.refusals.reason;
    return line.includes(waiter) ? 'slot' : 'job-busy';
  }

  #standing(nowMs: number, waiter: Waiter, line: readonly Waiter[]): Waiting {
    const reason = (waiter.lastReason = this.#reason(nowMs, waiter, line));
    const index = line.indexOf(waiter);
    const expectedAtMs = reason === 'slot' ? this.expectedAtMs(nowMs, index, waiter.lane) : undefined;
    const { runId, sendNumber } = waiter;
    const untilMs = delayedUntilMs(waiter);
    const { isJobAtWork: isToWatch, refusals: { statusCode } = {} } = waiter;
    const ofOwn = defined({ by: 'message', until: iso(untilMs), statusCode } as const);
    const pause = this.pauseOf(nowMs, line) ?? (untilMs > nowMs ? ofOwn : undefined);
    const position = { position: index + 1, expectedAtMs, pause, isToWatch };
    return defined({ kind: 'waiting', runId, sendNumber, reason, ...position } as const);
  }
}

/** Until when a message waits because the service refused it, even while others are sent. 0: it need not. */
export function delayedUntilMs({ refusals }: Waiter): number {
  if (!refusals) return 0;
  const { reason, count, lastAtMs, retryAfterMs = 0, isAlone } = refusals;
  const isLimited = reason === 'limited';
  // The limit that refused it once may no longer be reached.
  const times = isLimited ? (isAlone ? count - 2 : 0) : count;
  const longestMs = isAlone ? LONGEST_DELAY_MS : LONGEST_PAUSE_MS;
  const delayMs = times > 0 ? Math.min(longestMs, FIRST_DELAY_MS * DELAY_GROWTH ** (times - 1)) : 0;
  return lastAtMs + Math.max(retryAfterMs, delayMs);
}

type InJobLine = Pick<Waiter, 'job' | 'lane'>;

/** Those of one job and lane wait for each other. */
const jobLineOf = ({ job, lane }: InJobLine): string => `${lane} ${job}`;

/** Whether a follow-up without a place keeps its turn before later ones: until it had the time to come back. */
function isExpected({ calledAtMs }: TurnedAway, nowMs: number): boolean {
  return calledAtMs === undefined || nowMs - calledAtMs < JOB_LINE_RETRY_MS;
}

export function isDelayed(waiter: Waiter, nowMs: number): boolean {
  return delayedUntilMs(waiter) > nowMs;
}

/** The waiter whose message was refused least, interactive ones first, and the newest of these. */
function probeOf(line: readonly Waiter[]): Waiter | undefined {
  const rank = ({ refusals, lane }: Waiter) => 2 * (refusals?.count ?? 0) + (lane === 'batch' ? 1 : 0);
  const least = Math.min(...line.map(rank));
  return line.findLast((waiter) => rank(waiter) === least);
}

function isSame(a: SendId, b: SendId): boolean {
  return a.workflowId === b.workflowId && a.runId === b.runId && a.sendNumber === b.sendNumber;
}

/** Moves a key to the end: the first keys are forgotten first. */
function put<T>(record: Record<string, T>, key: string, value: T): void {
  Reflect.deleteProperty(record, key);
  record[key] = value;
}
