import { Failed } from '../../src/follow-up/failed.js';
import { type AskReply, type FollowUpReport, refusalOf } from '../../src/protocol/index.js';
import type { Run } from './runs.js';
import type { Arrival } from './service.js';
import { BUDGET_ID, seconds, type World } from './world.js';

/** What may be wrong with a seed. */
export const verdicts = {
  over: 'more messages within a window than the budget allows, or more of a batch than its brake or maxOpen',
  doubled: 'a message was delivered twice',
  lies: 'a follow-up said that its message was delivered, or that it was not, and that is not true',
  fooled: "a result belongs to another message's turn",
  behind: 'a message arrived while the turn of another follow-up ran, for which its own was to wait',
  overtaken: 'a message is sent before one to the same job and lane whose follow-up started earlier',
  lost: 'a follow-up does not end',
  late: 'a follow-up ends later than its settings say',
  stuck: 'a follow-up that could be sent waits beside a free slot, or for one that does not run',
  idle: 'a backlog leaves more than 1 % of the budget unused',
  hot: 'a follow-up asks or is signalled again and again',
  unused: 'a slot was granted that nobody used or gave back',
  unpaused: 'a slot was granted during a pause',
  hammered: 'the service refuses more messages in a minute than were under way and probe',
  blocked: 'a message waits beside a free slot because the service refuses others',
  notFound: 'a follow-up gives its job up, which was not found for less than half a minute',
  crash: 'an exception that nobody expects',
};
export type Verdict = keyof typeof verdicts;

/** How long a word of before the healing may travel. */
const LATEST_WORD_MS = 20_000;

/** A command of an operator to a budget. */
export interface Command {
  pause?: { untilMs?: number };
  resume?: true;
  limit?: number;
}

interface Pause {
  by: 'operator' | 'service';
  /** Missing if it is the whole project's. */
  of?: string;
  fromMs: number;
  endMs: number;
}

/** What happened besides the service's log, and what is wrong with it. */
export class Log {
  readonly found: { verdict: Verdict; what: string }[] = [];
  /** How often each follow-up asked, and was signalled. */
  readonly counts = {
    asks: new Map<string, number>(),
    refusals: new Map<string, number>(),
    signals: new Map<string, number>(),
  };
  /** When follow-ups returned a grant, for example because their job was at work just before the send. */
  readonly returns: { workflowId: string; atMs: number }[] = [];
  /** Runs of follow-ups. */
  readonly ended: Run[] = [];
  /** Grants that the budget need not wait for: `run/send`, or all of a run or follow-up. */
  readonly givenBack = new Set<string>();
  /** When each send was granted. */
  readonly #grants = new Map<string, number>();
  /** Grants of budgets that were closed or reset. */
  #earlierGrants = new Set<string>();
  #pauses: Pause[] = [];
  /** When a message was first answered by 429, unless another was accepted since. */
  #limitedAtMs: number | undefined;

  /** @param healedAtMs when the faults end: before, a grant may be lost with whoever had it */
  constructor(
    private readonly world: World,
    readonly healedAtMs: number,
    private readonly arrivals: readonly Arrival[],
  ) {}

  find(verdict: Verdict, ...what: unknown[]): void {
    this.found.push({ verdict, what: what.join(' ') });
  }

  count(what: keyof Log['counts'], workflowId: string): void {
    this.counts[what].set(workflowId, (this.counts[what].get(workflowId) ?? 0) + 1);
  }

  closed(run: Run): void {
    // Another budget does not know of its pauses.
    if (run.code.prompt !== undefined) this.ended.push(run);
    else if (run.workflowId === BUDGET_ID && run.status !== 'continued') {
      this.#forget();
      this.#earlierGrants = new Set(this.#grants.keys());
    }
    const { error } = run.end;
    if (error && !(error instanceof Failed)) this.find('crash', run.workflowId, error.stack);
  }

  #forget(): void {
    this.#pauses = [];
    this.#limitedAtMs = undefined;
  }

  noteCommand(fromMs: number, { pause, resume }: Command): void {
    if (resume) this.#forget();
    if (!pause) return;
    this.#pauses = this.#pauses.filter(({ by }) => by === 'service');
    this.#pauses.push({ by: 'operator', fromMs, endMs: pause.untilMs ?? Infinity });
  }

  noteReport(fromMs: number, event: FollowUpReport): void {
    const grant = event.kind === 'end' ? event.runId : `${event.runId}/${event.sendNumber}`;
    const isNew = !this.givenBack.has(grant);
    this.givenBack.add(grant);
    // What is reported again pauses nothing: an operator may have resumed.
    const refusal = event.kind === 'outcome' && (event.refusal ?? refusalOf(event.outcome));
    if (event.kind === 'outcome' && event.outcome === 'sent') this.#limitedAtMs = undefined;
    if (event.kind === 'outcome' && event.outcome === 'notSent')
      this.returns.push({ workflowId: event.workflowId, atMs: fromMs });
    if (event.kind === 'end' || !isNew || !refusal) return;
    this.count('refusals', event.workflowId);
    const endMs = event.atMs - 1_000 + (event.retryAfterMs ?? 0);
    // A budget that did not grant the send may not know its message, so only the project waits.
    if (!this.#earlierGrants.has(grant)) this.#pauses.push({ by: 'service', of: event.workflowId, fromMs, endMs });
    // What is refused again may concern the message alone, and a key may have been replaced.
    if (refusal !== 'limited' || this.counts.refusals.get(event.workflowId)! > 1) return;
    // A message that was granted since another met the limit has met it as well, so it is the project's.
    if ((this.#grants.get(grant) ?? 0) > (this.#limitedAtMs ?? Infinity)) {
      this.#pauses.push({ by: 'service', fromMs, endMs });
    }
    this.#limitedAtMs ??= fromMs;
  }

  noteReply(workflowId: string, reply: AskReply | undefined): void {
    if (reply?.kind !== 'granted') return;
    const { runId, sendNumber, grantedAtMs, overAtMs } = reply;
    const grant = `${runId}/${sendNumber}`;
    if (this.#grants.has(grant)) return;
    this.#grants.set(grant, grantedAtMs);
    const isPaused = ({ of = workflowId, fromMs, endMs }: Pause) =>
      of === workflowId && fromMs < grantedAtMs && grantedAtMs < endMs;
    if (this.#pauses.some(isPaused)) this.find('unpaused', workflowId, grant, seconds(grantedAtMs));
    if (grantedAtMs < this.healedAtMs + LATEST_WORD_MS) return;
    this.world.at(overAtMs + 1_000, () => {
      const isUsed = this.arrivals.some((each) => each.runId === runId && each.atMs >= grantedAtMs - 1_000);
      const isGivenBack = [grant, runId, workflowId].some((each) => this.givenBack.has(each));
      // Whoever replaces a run that was closed before cannot know that it sent nothing.
      const wasClosed = this.ended.some((run) => run.runId === runId && run.closedAtMs < grantedAtMs);
      if (!isUsed && !isGivenBack && !wasClosed) this.find('unused', workflowId, grant, seconds(grantedAtMs));
    });
  }
}
