import type { FollowUpResult } from '../../src/contract/index.js';
import { Failed } from '../../src/follow-up/flow.js';
import { type Answer, type BudgetEvent, refusalOf } from '../../src/protocol/index.js';
import { type Fault, isBudgetLost } from './faults.js';
import type { Order } from './ports.js';
import type { Run } from './runs.js';
import type { Caller, Stage } from './seed.js';
import { BUDGET_ID } from './server.js';
import type { Arrival } from './service.js';
import { START_MS, type World } from './world.js';

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
  gone: 'a follow-up gives its job up, which was not found for less than half a minute',
  crash: 'an exception that nobody expects',
};
export type Verdict = keyof typeof verdicts;

/** The longest that may pass, by itself, after the last fault and a follow-up's own timeouts. */
const SLACK_MS = 600_000;
const MOST_AN_HOUR = 90;
/** Ten are under way. A pause of a second, one of four, and so on, each let one probe. */
const MOST_REFUSED_A_MINUTE = 18;
/** How long a word of before the healing may travel. */
const LATEST_WORD_MS = 20_000;
/** Who starts so much later asks later, too. */
const LATER_MS = 1_000;
/** For how long a job may be missing. */
const LEAST_MISSING_MS = 30_000;
/** For how long a message that is not found may wait for another slot, and be on its way. */
const MOST_APART_MS = 400_000;
/** No poll need see a job that is found for a shorter time. */
const LONGEST_POLL_MS = 60_000;

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
  /** Runs of follow-ups. */
  readonly ended: Run[] = [];
  /** Grants that the budget need not wait for: `run/send`, or all of a run or follow-up. */
  readonly givenBack = new Set<string>();
  /** When each send was granted. */
  readonly #grants = new Map<string, number>();
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
    else if (run.workflowId === BUDGET_ID && run.status !== 'continued') this.#forget();
    const { error } = run.end;
    if (error && !(error instanceof Failed)) this.find('crash', run.workflowId, error.stack);
  }

  #forget(): void {
    this.#pauses = [];
    this.#limitedAtMs = undefined;
  }

  ordered(fromMs: number, { pause, resume }: Order): void {
    if (resume) this.#forget();
    if (!pause) return;
    this.#pauses = this.#pauses.filter(({ by }) => by === 'service');
    this.#pauses.push({ by: 'operator', fromMs, endMs: pause.untilMs ?? Infinity });
  }

  heard(fromMs: number, event: BudgetEvent): void {
    const grant = event.kind === 'end' ? event.runId : `${event.runId}/${event.sendNumber}`;
    const isNew = !this.givenBack.has(grant);
    this.givenBack.add(grant);
    // What is told again pauses nothing: an operator may have resumed.
    const refusal = event.kind === 'settle' && (event.refusal ?? refusalOf(event.outcome));
    if (event.kind === 'settle' && event.outcome === 'sent') this.#limitedAtMs = undefined;
    if (event.kind === 'end' || !isNew || !refusal) return;
    this.count('refusals', event.workflowId);
    const endMs = event.atMs - 1_000 + (event.retryAfterMs ?? 0);
    this.#pauses.push({ by: 'service', of: event.workflowId, fromMs, endMs });
    // What is refused again may concern the message alone, and a key may have been replaced.
    if (refusal !== 'limited' || this.counts.refusals.get(event.workflowId)! > 1) return;
    // A message that was granted since another met the limit has met it as well, so it is the project's.
    if ((this.#grants.get(grant) ?? 0) > (this.#limitedAtMs ?? Infinity)) {
      this.#pauses.push({ by: 'service', fromMs, endMs });
    }
    this.#limitedAtMs ??= fromMs;
  }

  answered(workflowId: string, answer: Answer | undefined): void {
    if (answer?.kind !== 'granted') return;
    const { runId, sendNumber, grantedAtMs, overAtMs } = answer;
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
      // Whoever replaces a run that was closed before gives back its grant with the next ask.
      const wasClosed = this.ended.some((run) => run.runId === runId && run.closedAtMs < grantedAtMs);
      if (!isUsed && !isGivenBack && !wasClosed) this.find('unused', workflowId, grant, seconds(grantedAtMs));
    });
  }
}

const jobOf = (workflowId: string): string | undefined => workflowId.split('/')[2];

const seconds = (ms: number): string => ((ms - START_MS) / 1_000).toFixed(1);

/** Compares what each follow-up said with the service's log. */
export function judgeSeed(stage: Stage): void {
  const { has, server, service, log, callers, budget } = stage;
  const { limit, windowMs } = budget.settings;
  const { arrivals } = service;
  // A budget that starts afresh knows neither of messages that were refused nor of those that were sent again since.
  const isKnown = ({ isRefused, prompt }: Arrival, i: number) =>
    !isRefused && !arrivals.slice(i + 1).some((later) => later.prompt === prompt);
  const counted = isBudgetLost(has) ? arrivals.filter(isKnown) : arrivals;
  const crowd = counted.find(({ atMs }, i) => i >= limit && atMs - counted[i - limit]!.atMs < windowMs);
  if (crowd) log.find('over', `${limit + 1} within a window at`, seconds(crowd.atMs), crowd.prompt);
  const refused = arrivals.filter(({ isRefused, isUnclear }) => isRefused || isUnclear);
  const flood = refused.find(({ atMs }, i) => atMs - (refused[i - MOST_REFUSED_A_MINUTE]?.atMs ?? -Infinity) < 60_000);
  if (flood && !isBudgetLost(has) && !has.has('orders')) log.find('hammered', seconds(flood.atMs));
  const keepsOrder: readonly Fault[] = [
    'orders',
    'impatient',
    ...(budget.places.most > 6 ? (['crowds'] as const) : []),
  ];
  if (!stage.batches && [...has].every((fault) => keepsOrder.includes(fault))) judgeOrder(stage);
  // A retry of a batch sends again what a job failed at.
  const resultOf = (run: Run) => (run.code.kept ? (run.end.value as FollowUpResult | undefined) : undefined);
  const failed = log.ended.filter((run) => resultOf(run)?.status === 'failed').map(({ workflowId }) => workflowId);
  for (const caller of callers) {
    const { workflowId, settings, isResendAllowed, startsAtMs } = caller;
    const accepted = arrivals.filter(
      ({ prompt, isAccepted }) => isAccepted && prompt.startsWith(settings.prompt.replace(/#a$/, '#')),
    );
    const sent = accepted.filter((each) => !failed.includes(each.workflowId));
    const runs = log.ended.filter((run) => run.workflowId === workflowId);
    const most = settings.onUnknownDelivery === 'resend' ? 2 * runs.length : 1;
    if (sent.length > most && !isResendAllowed) {
      log.find('doubled', workflowId, ...sent.map(({ atMs, runId }) => `${seconds(atMs)} ${runId}`));
    }
    // A message that is sent again by request may come behind itself.
    const [behind] = accepted;
    const isBehind = settings.whenActive === 'wait' && behind?.isBehind === true;
    // The limit of `docs/explanation/promises.md`: a message that was sent during a turn may take its end for its own.
    const isAfterSuch = ({ workflowId: id, isBehind: wasBehind, atMs }: Arrival) =>
      wasBehind && jobOf(id) === settings.jobId && atMs < behind!.atMs;
    const isFooled = has.has('stale') && isBehind && arrivals.some(isAfterSuch);
    if (isBehind && !isFooled) log.find('behind', workflowId, seconds(behind.atMs));
    for (const i of runs.keys()) judgeRun(stage, caller, runs.slice(0, i + 1), accepted);
    const last = server.latest(workflowId);
    if (last?.status === 'running') log.find('lost', workflowId, last.runId, last.states.at(-1)?.state);
    const hours = Math.max(1, ((last?.closedAtMs ?? Infinity) - startsAtMs) / 3_600_000);
    const [asks = 0, signals = 0] = [log.counts.asks.get(workflowId), log.counts.signals.get(workflowId)];
    if (Math.max(asks, signals) / hours > MOST_AN_HOUR) log.find('hot', workflowId, asks, 'asks', signals, 'signals');
  }
}

/** Of messages that nothing kept from being sent but the budget and their job. */
function judgeOrder({ service, log, callers }: Stage): void {
  const sentAtMs = ({ settings }: Caller) =>
    service.arrivals.find(({ prompt }) => prompt === settings.prompt)?.atMs ?? Infinity;
  for (const first of callers) {
    const { jobId, lane, whenActive } = first.settings;
    const isBehind = ({ settings, startsAtMs }: Caller) =>
      settings.jobId === jobId && settings.lane === lane && startsAtMs > first.startsAtMs + LATER_MS;
    // Who does not wait for the end of another's turn may overtake who does.
    const isAlike = ({ settings }: Caller) => whenActive === 'send' || settings.whenActive === whenActive;
    const later = callers.find((each) => isBehind(each) && isAlike(each) && sentAtMs(each) < sentAtMs(first));
    const isSent = sentAtMs(first) < Infinity;
    if (later && isSent) log.find('overtaken', first.workflowId, 'by', later.workflowId, seconds(sentAtMs(later)));
  }
}

/** @param runs the run to judge, after the runs of its follow-up that closed before */
function judgeRun({ log, has, server, service }: Stage, caller: Caller, runs: Run[], accepted: Arrival[]): void {
  const run = runs.at(-1);
  const said = run && saidBy(run);
  if (!said) return;
  const who = `${run.workflowId} ${run.runId} ${said.type}`;
  // Each start by hand of an id begins a chain. A budget that starts afresh may not know of an earlier one.
  const chain = runs.filter(({ originalRunId }) => originalRunId === run.originalRunId).map(({ runId }) => runId);
  const ofMessage = accepted.filter(({ prompt, atMs }) => prompt === run.code.prompt && atMs < run.closedAtMs);
  const isDelivered = ofMessage.some(({ runId }) => chain.includes(runId));
  const isKnown = isBudgetLost(has) ? isDelivered : ofMessage.length > 0;
  if (said.delivered === 'no' ? isKnown : said.delivered === 'yes' && ofMessage.length === 0) {
    log.find('lies', who, said.delivered);
  }
  // Of a message that came while another turn ran, nobody can tell.
  const isOfTurn = (arrival: Arrival) => arrival.turn === said.turn || arrival.isBehind;
  // What was assumed need not have been delivered, and a budget that starts afresh may not know whose turn was last.
  const isAssumed = said.delivered === 'unknown' && isBudgetLost(has) && chain.length > 1;
  // The other limit of that page: the key was used again, and the budget that knew it is lost.
  const isReused = runs.some((each) => each.originalRunId !== run.originalRunId && each.startedAtMs > run.startedAtMs);
  const isLimit = isAssumed || (isReused && isBudgetLost(has));
  const isToJudge = ofMessage.length > 0 && (said.delivered === 'yes' || isDelivered) && !isLimit;
  if (said.turn !== undefined && isToJudge && !ofMessage.some(isOfTurn)) {
    log.find('fooled', who, `took turn ${said.turn} for`, ...ofMessage.map((each) => each.turn));
  }
  if (said.type === 'JobNotFound') {
    const isLong = longestOf(service.hidden, run.tasks[0]?.atMs ?? 0, run.closedAtMs) >= LEAST_MISSING_MS;
    const arrivals = service.arrivals.filter(({ runId }) => runId === run.runId);
    const [first, second] = arrivals.slice(-2);
    const isTwice = first?.isMissing && second?.isMissing && second.atMs - first.atMs < MOST_APART_MS;
    if (!isLong && !isTwice) log.find('gone', who);
  }
  const { budgetWaitTimeoutMs, jobTimeoutMs, settleTimeMs } = caller.settings;
  const patienceEndsMs = Math.max((run.tasks[0]?.atMs ?? 0) + budgetWaitTimeoutMs, log.healedAtMs);
  // A run that replaces another looks for the turn of that send.
  const mayWatch = said.type !== 'BudgetWaitTimeout' || chain.length > 1;
  const watchMs = mayWatch ? jobTimeoutMs : 0;
  const leasesMs = server.workers.map(({ settings }) => settings.leaseMs + settings.drainMs);
  const latestMs = patienceEndsMs + Math.max(...leasesMs) + settleTimeMs + watchMs + SLACK_MS;
  if (run.closedAtMs > latestMs) log.find('late', who, 'at', seconds(run.closedAtMs), 'not', seconds(latestMs));
}

/** The longest time for which a job was hidden whenever it was polled. */
function longestOf(spans: readonly { fromMs: number; endMs: number }[], fromMs: number, endMs: number): number {
  let [sinceMs, untilMs, longestMs] = [fromMs, -Infinity, 0];
  for (const span of spans.filter((each) => each.endMs > fromMs && each.fromMs < endMs)) {
    if (span.fromMs - untilMs > LONGEST_POLL_MS) sinceMs = Math.max(span.fromMs, fromMs);
    untilMs = Math.max(untilMs, Math.min(span.endMs, endMs));
    longestMs = Math.max(longestMs, untilMs - sinceMs);
  }
  return longestMs;
}

/** How a run ended, in its own words. */
function saidBy({ end }: Run): { type: string; delivered: string; turn?: number } | undefined {
  if (end.error instanceof Failed) return end.error;
  const result = end.value as FollowUpResult | undefined;
  const delivered = result?.delivery === 'assumed' ? 'unknown' : 'yes';
  return result && { type: 'result', delivered, turn: result.job['turn'] as number };
}
