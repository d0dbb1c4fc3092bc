import type { FollowUpResult } from '../../src/contract/index.js';
import { Failed } from '../../src/follow-up/failed.js';
import { type Fault, isBudgetLost } from './profiles.js';
import type { Run } from './runs.js';
import type { Arrival } from './service.js';
import type { Caller, Stage } from './stage.js';
import { seconds } from './world.js';

/** The longest that may pass, by itself, after the last fault and a follow-up's own timeouts. */
const SLACK_MS = 600_000;
const MAX_AN_HOUR = 90;
/** Ten are under way. A pause of a second, one of four, and so on, each let one probe. */
const MAX_REFUSED_A_MINUTE = 18;
/** Messages that may be under way when the service begins to refuse once more, after it has accepted a probe. */
const MAX_UNDER_WAY = 10;
/** Who starts so much later asks later, too. */
const LATER_MS = 1_000;
/** Until who returned a grant is in line again. */
const LONGEST_RETURN_MS = 10_000;
/** For how long a job may be missing. */
const LEAST_MISSING_MS = 30_000;
/** For how long a message that is not found may wait for another slot, and be on its way. */
const MAX_APART_MS = 400_000;
/** No poll need see a job that is found for a shorter time. */
const LONGEST_POLL_MS = 60_000;

const jobOf = (workflowId: string): string | undefined => workflowId.split('/')[2];

/** Compares what each follow-up said with the service's log. */
export function judgeSeed(stage: Stage, hasBatch: boolean): void {
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
  const isFlood = ({ atMs }: Arrival, i: number) => {
    const firstMs = refused[i - MAX_REFUSED_A_MINUTE]?.atMs ?? -Infinity;
    const isRenewed = arrivals.some((each) => each.isAccepted && each.atMs > firstMs && each.atMs < atMs);
    const since = refused[i - MAX_REFUSED_A_MINUTE - (isRenewed ? MAX_UNDER_WAY : 0)];
    return atMs - (since?.atMs ?? -Infinity) < 60_000;
  };
  const flood = refused.find(isFlood);
  if (flood && !isBudgetLost(has) && !has.has('commands')) log.find('hammered', seconds(flood.atMs));
  const keepsOrder: readonly Fault[] = [
    'commands',
    'impatient',
    ...(budget.capacity.total > 6 ? (['crowds'] as const) : []),
  ];
  if (!hasBatch && [...has].every((fault) => keepsOrder.includes(fault))) judgeOrder(stage);
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
    const most = settings.onUnknownDelivery === 'resend' ? 2 : 1;
    if (sent.length > most && !isResendAllowed) {
      log.find('doubled', workflowId, ...sent.map(({ atMs, runId }) => `${seconds(atMs)} ${runId}`));
    }
    // A message that is sent again by request may come behind itself.
    const [behind] = accepted;
    const isBehind = settings.whenActive === 'wait' && behind?.isBehind === true;
    // A limit of `docs/explanation/promises.md`: a follow-up that sent during a turn may take the end of that turn for its
    // own, or give up before its own turn begins.
    const isAfterSuch = ({ workflowId: id, isBehind: wasBehind, atMs }: Arrival) =>
      wasBehind && jobOf(id) === settings.jobId && atMs < behind!.atMs;
    const isLimit = (has.has('stale') || has.has('impatient')) && isBehind && arrivals.some(isAfterSuch);
    if (isBehind && !isLimit) log.find('behind', workflowId, seconds(behind.atMs));
    for (const i of runs.keys()) judgeRun(stage, caller, runs.slice(0, i + 1), accepted);
    const last = server.latest(workflowId);
    if (last?.status === 'running') log.find('lost', workflowId, last.runId, last.states.at(-1)?.state);
    const hours = Math.max(1, ((last?.closedAtMs ?? Infinity) - startsAtMs) / 3_600_000);
    const [asks = 0, signals = 0] = [log.counts.asks.get(workflowId), log.counts.signals.get(workflowId)];
    if (Math.max(asks, signals) / hours > MAX_AN_HOUR) log.find('hot', workflowId, asks, 'asks', signals, 'signals');
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
    // The other may find the job at rest before this one asks again.
    const returns = log.returns.filter(({ workflowId }) => workflowId === first.workflowId);
    const isReturned = (nowMs: number) => returns.some(({ atMs }) => atMs <= nowMs && nowMs < atMs + LONGEST_RETURN_MS);
    const isEarlier = (atMs: number) => atMs < sentAtMs(first) && !isReturned(atMs);
    const later = callers.find((each) => isBehind(each) && isAlike(each) && isEarlier(sentAtMs(each)));
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
    const isTwice = first?.isMissing && second?.isMissing && second.atMs - first.atMs < MAX_APART_MS;
    if (!isLong && !isTwice) log.find('notFound', who);
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
