import {
  ALONG_FOR_MS,
  askAgainAfterMs,
  asksSilentBudgetAtMs,
  ENOUGH_FOR_REPORT,
  PROBED_FOR_MS,
  toldAfterMs,
} from '../src/activities/ask-again.js';
import { REPORTS_APART_MS, WAKE_TEN_MS } from '../src/budget/limits.js';
import type { AcquireRequest, BudgetWord } from '../src/contract/protocol.js';
import type { Ask, BudgetHost } from './budget-host.js';
import { Later, sleep, type Steps } from './process.js';
import type { World } from './world.js';

/** The way to the budget. Messages may be lost, late, overtaken, or applied twice. */
export class Network {
  readonly #world: World;
  readonly #host: BudgetHost;
  readonly #wake: (workflowId: string) => void;
  /** When the budget last answered an ask, since when it is silent, and who was told so. */
  #answeredAtMs = -Infinity;
  #silentSinceMs: number | undefined;
  #comesAgainAtMs = 0;
  readonly #toldSilent = new Set<string>();
  #isProbed = false;
  #nextReport: Report | undefined;

  /** Asks by the hour. */
  readonly #asks: number[] = [];

  constructor(world: World, host: BudgetHost, wake: (workflowId: string) => void) {
    this.#world = world;
    this.#host = host;
    this.#wake = wake;
  }

  /** Number of asks in the busiest hour. */
  asksInAnyHour(): number {
    return Math.max(0, ...this.#asks.filter((asks) => asks > 0));
  }

  /**
   * One ask, as the budget client makes it. A call that fails is repeated with the same token, and an ask that is not
   * answered in time is released, although the budget may still hear it. A budget that answers nobody is silent: asks
   * are then answered at once, and one call at a time finds out whether it is back.
   */
  *ask(request: AcquireRequest): Steps<Ask> {
    const { timeline, chance, counts, faults, sizes } = this.#world;
    counts.asks += 1;
    const hour = Math.floor(timeline.nowMs / 3_600_000);
    this.#asks[hour] = (this.#asks[hour] ?? 0) + 1;
    if (this.#silentSinceMs !== undefined && !(yield* this.#isBack())) return this.#comeAgain(request);
    const appliedAgainAfterMs = faults.strikes('duplicated') ? chance.between(50, 20_000) : undefined;
    const sinceMs = timeline.nowMs;
    const isLetGoEarly = faults.strikes('letGo');
    const letGoAtMs = sinceMs + (isLetGoEarly ? chance.between(20, sizes.askForMs) : sizes.askForMs);
    const line: CallLine = { isLetGo: false, appliedAgainAfterMs };
    for (let timesTurnedAway = 0; ;) {
      const ask = yield* this.#call(request, letGoAtMs - timeline.nowMs, line);
      // If the server turns asks away, that says nothing about the budget: a silent one may have them all in flight.
      if (ask && ask !== 'exhausted') {
        this.#answered();
        return ask;
      }
      timesTurnedAway = ask ? timesTurnedAway + 1 : 0;
      const waitMs = askAgainAfterMs(timesTurnedAway, chance.between(0, 1));
      const isSilent = timeline.nowMs - Math.max(sinceMs, this.#answeredAtMs) >= sizes.silentAfterMs;
      if (isSilent) this.#silentSinceMs ??= sinceMs;
      if (isSilent || timeline.nowMs + waitMs >= letGoAtMs) {
        line.isLetGo = true;
        return this.#comeAgain(request);
      }
      yield* sleep(timeline, waitMs);
    }
  }

  /** One call, which takes the waiting words along; `undefined` if it failed, at once or at its deadline. */
  *#call(request: AcquireRequest, leftMs: number, line: CallLine): Steps<Ask | 'exhausted' | undefined> {
    const { timeline, chance, faults, sizes } = this.#world;
    const deadlineMs = Math.min(sizes.callDeadlineMs, sizes.silentAfterMs, leftMs);
    const answered = new Later<Ask | 'exhausted' | undefined>(timeline).expire(deadlineMs, undefined);
    const taken = this.#nextReport;
    this.#nextReport = undefined;
    const words = taken ? this.#wordsOf(taken) : [];
    if (line.appliedAgainAfterMs !== undefined) {
      timeline.after(line.appliedAgainAfterMs, () => this.#host.ask(request, words, () => undefined));
      line.appliedAgainAfterMs = undefined;
    }
    // A broken connection is noticed soon, or only at the deadline.
    const isNoticed = chance.happens(0.5);
    const lose = (): void => {
      if (isNoticed) answered.expire(chance.between(5, 1_000), undefined);
    };
    if (faults.strikes('lost')) lose();
    else {
      timeline.after(this.#world.delayMs(50, 9_000), () => {
        this.#host.ask(request, words, (ask) => {
          if (faults.strikes('lost')) return lose();
          timeline.after(this.#world.delayMs(40, 3_000), () => {
            answered.set(ask);
            if (line.isLetGo && ask !== 'exhausted' && ask.answer.kind === 'granted') this.#giveBack(request);
          });
        });
      });
    }
    const goAlone = (): void => {
      if (taken && !taken.isTaken.isSet) this.#send(taken);
    };
    if (taken) timeline.after(ALONG_FOR_MS, goAlone);
    answered.whenSet((ask) => {
      if (!ask || ask === 'exhausted' || !ask.proven) goAlone();
      else taken?.isTaken.set(true);
    });
    return yield* answered.get();
  }

  #answered(): void {
    this.#answeredAtMs = this.#world.timeline.nowMs;
    if (this.#silentSinceMs === undefined) return;
    this.#silentSinceMs = undefined;
    this.#comesAgainAtMs = 0;
    for (const [index, workflowId] of [...this.#toldSilent].entries()) {
      const turnMs = Math.floor(index / 10) * WAKE_TEN_MS;
      this.#world.timeline.after(turnMs + this.#world.delayMs(2_000, 4_000), () => this.#wake(workflowId));
    }
    this.#toldSilent.clear();
  }

  *#isBack(): Steps<boolean> {
    const { timeline } = this.#world;
    if (this.#isProbed) return false;
    this.#isProbed = true;
    const isBack = new Later<boolean>(timeline).expire(PROBED_FOR_MS, false);
    this.#host.probe(() => {
      this.#isProbed = false;
      this.#answered();
      isBack.set(true);
    });
    return yield* isBack.get();
  }

  /** The answer to a follow-up that the budget has not answered. */
  #comeAgain({ workflowId }: AcquireRequest): Ask {
    const { timeline, chance } = this.#world;
    const silence = {
      silentForMs: timeline.nowMs - (this.#silentSinceMs ?? timeline.nowMs),
      lastAtMs: this.#comesAgainAtMs,
      random: chance.between(0, 1),
    };
    this.#comesAgainAtMs = asksSilentBudgetAtMs(timeline.nowMs, silence);
    this.#toldSilent.add(workflowId);
    const waitMs = this.#comesAgainAtMs - timeline.nowMs;
    return { answer: { kind: 'wait', reason: 'budget-silent', waitMs, position: 0, etaMs: null }, proven: false };
  }

  /** A call to the server that notes something. Returns whether it is known to have done so. */
  *note(take: () => boolean): Steps<boolean> {
    const { timeline, faults } = this.#world;
    yield* sleep(timeline, this.#world.delayMs(20, 2_000));
    if (faults.strikes('lost')) return false;
    const isTaken = take();
    yield* sleep(timeline, this.#world.delayMs(20, 2_000));
    return isTaken && !faults.strikes('lost');
  }

  /**
   * Tells the budget something. Resolves when the server has accepted it, or it is lost; the budget hears it later.
   * Words that come within three seconds go together, as the budget client sends them. If an ask takes them along and
   * fails, or is not answered within two seconds, they go by themselves. News of the key always does.
   *
   * @param how.sinceMs when what it tells came about. @default now
   */
  tell(
    word: BudgetWord,
    { isUrgent = false, sinceMs = this.#world.timeline.nowMs }: { isUrgent?: boolean; sinceMs?: number } = {},
  ): Later<true> {
    const { timeline, chance } = this.#world;
    const given = { word, sinceMs };
    const fresh: Report = { words: [], isUrgent: false, isTaken: new Later<true>(timeline) };
    if (word.kind === 'keyRead') {
      fresh.words.push(given);
      timeline.after(chance.between(5, REPORTS_APART_MS), () => this.#send(fresh));
      return fresh.isTaken;
    }
    this.#world.note('  tell', word.kind, word.workflowId, word.sendNumber, word.outcome);
    const report: Report = this.#nextReport ?? fresh;
    const sendThisAfter = (delayMs: number) =>
      timeline.after(delayMs, () => {
        if (report !== this.#nextReport) return;
        this.#nextReport = undefined;
        this.#send(report);
      });
    if (report !== this.#nextReport) sendThisAfter(chance.between(5, REPORTS_APART_MS));
    this.#nextReport = report;
    report.words.push(given);
    report.isUrgent ||= isUrgent;
    if (report.isUrgent || report.words.length >= ENOUGH_FOR_REPORT) sendThisAfter(chance.between(5, 50));
    return report.isTaken;
  }

  #send(report: Report): void {
    const { timeline, chance, faults } = this.#world;
    report.isTaken.set(true);
    const words = this.#wordsOf(report);
    const hear = () => this.#host.tell((budget, timeMs) => budget.hear(timeMs, words));
    timeline.after(this.#world.delayMs(60, 15_000), hear);
    if (faults.strikes('duplicated')) timeline.after(chance.between(100, 20_000), hear);
  }

  /** The words as they are told now. A follow-up repeats its end until the server has accepted it. */
  #wordsOf({ words }: Report): BudgetWord[] {
    const told = words.map(({ word, sinceMs }) => toldAfterMs(word, this.#world.timeline.nowMs - sinceMs));
    return this.#world.faults.strikes('settleLost') ? told.filter(({ kind }) => kind !== 'settle') : told;
  }

  /** A grant to an ask that was released is never used. */
  #giveBack({ workflowId, sendNumber, token }: AcquireRequest): void {
    this.tell({ kind: 'settle', workflowId, sendNumber, token, outcome: 'notSent' }, { isUrgent: true });
  }
}

/** The calls of one ask. */
interface CallLine {
  /** Whether nobody waits for the answer any more. */
  isLetGo: boolean;
  /** After how long the server applies the next call a second time. */
  appliedAgainAfterMs: number | undefined;
}

/** Words that go together. */
interface Report {
  words: { word: BudgetWord; sinceMs: number }[];
  /** Whether one of them does not wait for others. */
  isUrgent: boolean;
  isTaken: Later<true>;
}
