import type { BudgetStatus, SendOutcome } from '../contract/index.js';
import type { AcquireAnswer, AcquireRequest, BudgetWord } from '../contract/protocol.js';
import { acquire, enterAnswer } from './acquire.js';
import { RECHECK_MS } from './limits.js';
import { awaitEnds, hasLapsed } from './line.js';
import { recall } from './memory.js';
import { type LimitChange, pause, resume, setLimit } from './operator.js';
import { noteKeyRead } from './pause.js';
import { gone, leave, settle, settlesGrant } from './settle.js';
import { findGrant, unsettled } from './slots.js';
import type { BudgetState, Waiter } from './state.js';
import { type BudgetFacts, budgetFacts, budgetStatus, type StatusExtent } from './status.js';
import { watch } from './watchdog.js';

/** What the caller has to do after an event. */
export interface Effects {
  wake: string[];
  /** Owners of turns that somebody waits for: ask whether they still run. */
  check: string[];
  /** Call {@link Budget.tick} at this budget time. */
  lookAgainAtMs?: number;
  /** The event would have had the same effects at any other time, and no later decision depends on its time. */
  isTimeless?: boolean;
}

/**
 * The rules of one project's budget: state + event + time → state + answer + effects. Knows neither Temporal nor a
 * clock.
 *
 * Invariant: in every window, at most `limit` slots are occupied, and a slot is occupied as long as bytes of its send
 * can count in the service's own window.
 */
export class Budget {
  constructor(readonly state: BudgetState) {}

  /**
   * Hears the words that came along, then answers the asks that arrived together, in order, as if one after another.
   * Idempotent by request id and token.
   */
  acquireAll(
    timeMs: number,
    requests: readonly AcquireRequest[],
    words: readonly BudgetWord[] = [],
  ): [AcquireAnswer[], Effects] {
    const nowMs = this.#advance(timeMs);
    this.#take(nowMs, words);
    const check: string[] = [];
    const answers = requests.map((request) => this.#answer(nowMs, request, check));
    return [this.#tellAwaited(nowMs, requests, answers), this.#effects(nowMs, check)];
  }

  /** Applies asks, and the words that came along, with the answers that the history has; see {@link enterAnswer}. */
  enterAnswers(
    timeMs: number,
    requests: readonly AcquireRequest[],
    answers: readonly AcquireAnswer[],
    words: readonly BudgetWord[] = [],
  ): void {
    const nowMs = this.#advance(timeMs);
    this.#take(nowMs, words);
    for (const [index, request] of requests.entries()) {
      const answer = answers[index];
      if (answer) enterAnswer(this.state, nowMs, request, answer);
    }
  }

  /** Applies words that arrived together, in order. */
  hear(timeMs: number, words: readonly BudgetWord[]): Effects {
    const nowMs = this.#advance(timeMs);
    const isTimeless = this.#areTimeless(words);
    this.#take(nowMs, words);
    return { ...this.#effects(nowMs), isTimeless };
  }

  /** A signal to a follow-up failed: it no longer runs. */
  gone(timeMs: number, workflowId: string): Effects {
    const nowMs = this.#advance(timeMs);
    gone(this.state, workflowId);
    return this.#effects(nowMs);
  }

  /** Changes limit, window or reserve. The caller has checked {@link limitChangeIssue}. */
  setLimit(timeMs: number, change: LimitChange): Effects {
    setLimit(this.state, change);
    return this.#effects(this.#advance(timeMs));
  }

  /** Lets nothing through until resumed, or for `forMs`. */
  pause(timeMs: number, { forMs, note }: { forMs?: number | undefined; note?: string | undefined }): Effects {
    const nowMs = this.#advance(timeMs);
    pause(this.state, {
      sinceMs: nowMs,
      ...(forMs !== undefined && { untilMs: nowMs + forMs }),
      ...(note !== undefined && { note }),
    });
    return this.#effects(nowMs);
  }

  /** Ends an operator's pause, and the wait of a pause that the service caused. */
  resume(timeMs: number): Effects {
    const nowMs = this.#advance(timeMs);
    resume(this.state, nowMs);
    return this.#effects(nowMs);
  }

  /** Time has passed. */
  tick(timeMs: number): Effects {
    return this.#effects(this.#advance(timeMs));
  }

  /**
   * Whether nothing urgent is due: no invited waiter may still ask, and no send is in flight whose end is awaited. Changes
   * nothing.
   */
  isQuiet(timeMs: number): boolean {
    const nowMs = Math.max(this.state.lastTimeMs, timeMs);
    const mayAsk = (waiter: Waiter) => waiter.invitedAtMs !== undefined && !hasLapsed(this.state, waiter, nowMs);
    return !this.state.waiters.some(mayAsk) && !unsettled(this.state, nowMs).some(({ isAwaited }) => isAwaited);
  }

  /** How the latest send of a follow-up ended; `undefined` if none is remembered. Changes nothing. */
  outcomeOf(workflowId: string): SendOutcome | undefined {
    const remembered = recall(this.state, workflowId);
    return remembered && remembered.sendNumber > 0 ? (remembered.outcome ?? 'unknown') : undefined;
  }

  /** The facts for metrics. Changes nothing. */
  facts(timeMs: number): BudgetFacts {
    return budgetFacts(this.state, Math.max(this.state.lastTimeMs, timeMs));
  }

  /** The status of the budget. Changes nothing. */
  status(timeMs: number, extent?: StatusExtent): BudgetStatus {
    return budgetStatus(this.state, Math.max(this.state.lastTimeMs, timeMs), extent);
  }

  #take(nowMs: number, words: readonly BudgetWord[]): void {
    for (const word of words) {
      if (word.kind === 'settle') settle(this.state, nowMs, word);
      else if (word.kind === 'keyRead') noteKeyRead(this.state, nowMs, word);
      else leave(this.state, nowMs, word);
    }
  }

  /** Whether the words are only ends that nobody waits for, of sends whose outcomes are known. */
  #areTimeless(words: readonly BudgetWord[]): boolean {
    const { waiters, pause, keyRefused } = this.state;
    const isEnd = (word: BudgetWord) =>
      (word.kind === 'finish' || word.kind === 'withdraw') && !settlesGrant(this.state, word);
    return waiters.length === 0 && !pause && !keyRefused && words.every(isEnd);
  }

  #answer(nowMs: number, request: AcquireRequest, check: string[]): AcquireAnswer {
    return acquire(this.state, nowMs, request, (jobId) => {
      const turn = this.state.turns.get(jobId);
      if (!turn || nowMs < (turn.checkedAtMs ?? -Infinity) + RECHECK_MS) return;
      turn.checkedAtMs = nowMs;
      check.push(turn.workflowId);
    });
  }

  /** Tells each follow-up that was granted whether the end of its send is awaited. The waiters of this call count. */
  #tellAwaited(nowMs: number, requests: readonly AcquireRequest[], answers: readonly AcquireAnswer[]): AcquireAnswer[] {
    const grants = requests.map(({ workflowId, sendNumber }, index) =>
      answers[index]?.kind === 'granted' ? findGrant(this.state, workflowId, sendNumber) : undefined,
    );
    awaitEnds(
      this.state,
      nowMs,
      grants.filter((grant) => grant !== undefined),
    );
    return answers.map((answer, index) =>
      answer.kind === 'granted' && grants[index]?.isAwaited ? { ...answer, isAwaited: true } : answer,
    );
  }

  /** Budget time never goes back, although the clock is that of whichever host runs the history shard. */
  #advance(timeMs: number): number {
    this.state.lastTimeMs = Math.max(this.state.lastTimeMs, timeMs);
    return this.state.lastTimeMs;
  }

  #effects(nowMs: number, check: string[] = []): Effects {
    return { ...watch(this.state, nowMs), check };
  }
}
