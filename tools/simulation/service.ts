import type { GetJobOutcome, SendMessageOutcome } from '../../src/agent-jobs/index.js';
import type { AgentJob } from '../../src/contract/index.js';
import { type BodyKind, type GetJobFailureReason, meaningOf } from '../../src/protocol/index.js';
import type { World } from './world.js';

/** A message that reached the service. */
export interface Arrival {
  atMs: number;
  prompt: string;
  workflowId: string;
  runId: string;
  isAccepted: boolean;
  isRefused: boolean;
  /** It was answered 503 although the service works. */
  isUnclear?: true;
  /** It was answered 404 although the job is there. */
  isMissing?: true;
  turn: number;
  /** It came while another turn ran, so nobody can tell the ends of the two apart. */
  isBehind: boolean;
}

const REFUSALS = [401, 402, 429] as const;

const responseOf = (statusCode: number, body: BodyKind = 'other', more: Partial<SendMessageOutcome> = {}) => ({
  ...{ outcome: meaningOf(statusCode, body).ofMessage, statusCode, ...more },
});

/** The agent job service: jobs with turns, replicas that lag, refusals. Its log of arrivals is the truth. */
export class Service {
  readonly arrivals: Arrival[] = [];
  readonly jobs = new Map<string, { states: { atMs: number; job: AgentJob }[]; turns: number; busyUntilMs: number }>();
  /** Until when it refuses, fails, does not find jobs, or takes no messages. */
  readonly until = { 401: 0, 402: 0, 429: 0, failing: 0, hiding: 0, silent: 0 };
  /** Spans of time in which it did not find jobs. */
  readonly hidden: { fromMs: number; endMs: number }[] = [];
  /** Jobs whose messages it refuses, or answers with an error, until a time. */
  readonly blocked = new Map<string, { untilMs: number; statusCode: number }>();
  readonly #turnMs: readonly number[];
  readonly #keepsLink: boolean;
  readonly #saysRetryAfter: boolean;

  /** @param lagMs how much replicas lag; a turn takes `showMs` to show, together less than any settle time */
  constructor(
    private readonly world: World,
    private readonly settings: { showMs: number; lagMs: number; limit: number; windowMs: number },
  ) {
    const { chance } = world;
    this.#turnMs = chance.pick([[2_000, 20_000] as const, [5_000, 120_000] as const, [500, 3_000] as const]);
    this.#keepsLink = chance.happens(0.5);
    this.#saysRetryAfter = chance.happens(0.5);
  }

  hide(endMs: number): void {
    this.until.hiding = endMs;
    this.hidden.push({ fromMs: this.world.nowMs, endMs });
  }

  addJob(jobId: string): void {
    const { chance, nowMs } = this.world;
    const status = chance.pick(['completed', 'completed', 'failed', 'active']);
    const job = { id: jobId, status, prLink: status === 'completed' ? `https://pr/${jobId}/0` : null, turn: 0 };
    this.jobs.set(jobId, { states: [{ atMs: 0, job }], turns: 0, busyUntilMs: 0 });
    if (status === 'active') this.#endTurn(jobId, 0, nowMs + chance.between(1_000, 60_000));
  }

  archive(jobId: string): void {
    const { nowMs } = this.world;
    if (this.isAtWork(jobId)) return;
    this.#set(jobId, nowMs, { ...this.#job(jobId), status: 'archived', archivedAt: new Date(nowMs).toISOString() });
  }

  isAtWork = (jobId: string): boolean => this.jobs.get(jobId)!.busyUntilMs > this.world.nowMs;

  read(jobId: string): GetJobOutcome {
    const { until, world, settings } = this;
    const { nowMs, chance } = world;
    const failed = (statusCode: number, more = {}): GetJobOutcome => ({
      ...{ kind: 'failed', reason: meaningOf(statusCode).ofRead as GetJobFailureReason, message: String(statusCode) },
      ...{ statusCode, ...more },
    });
    const refusal = REFUSALS.find((each) => until[each] > nowMs);
    if (refusal && chance.happens(0.7)) return failed(refusal, refusal === 429 && this.#retryAfter());
    if (until.failing > nowMs && chance.happens(0.8)) return failed(500);
    if (until.hiding > nowMs && chance.happens(0.6)) return { kind: 'notFound', message: '404' };
    const shownMs = nowMs - chance.between(0, settings.lagMs);
    const { states } = this.jobs.get(jobId)!;
    return { kind: 'job', job: { ...(states.findLast(({ atMs }) => atMs <= shownMs) ?? states[0]!).job } };
  }

  /** A message arrives. */
  post(
    jobId: string,
    prompt: string,
    { workflowId, runId }: Pick<Arrival, 'workflowId' | 'runId'>,
  ): SendMessageOutcome {
    const { world, settings, until, arrivals } = this;
    const { nowMs, chance } = world;
    const job = this.jobs.get(jobId)!;
    const accepted = arrivals.filter(({ atMs, isAccepted }) => isAccepted && atMs > nowMs - settings.windowMs);
    const { untilMs = 0, statusCode: blocked = 0 } = this.blocked.get(jobId) ?? {};
    const block = untilMs > nowMs ? blocked : undefined;
    const isFull = accepted.length >= settings.limit;
    const refusal = REFUSALS.find((each) => until[each] > nowMs) ?? (isFull ? 429 : undefined);
    const isRefused = refusal !== undefined || (block !== undefined && block !== 200);
    const from = { atMs: nowMs, prompt, workflowId, runId };
    const arrival: Arrival = { ...from, isAccepted: false, isRefused, turn: 0, isBehind: false };
    arrivals.push(arrival);
    const statusCode = refusal ?? block;
    if (statusCode !== undefined) return responseOf(statusCode, 'other', statusCode === 429 ? this.#retryAfter() : {});
    if (until.hiding > nowMs && chance.happens(0.3)) {
      arrival.isMissing = true;
      return responseOf(404);
    }
    if (until.silent > nowMs) {
      arrival.isUnclear = true;
      return responseOf(503);
    }
    if (this.#job(jobId).status === 'archived') return responseOf(400);
    if (until.failing > nowMs && chance.happens(0.4)) return responseOf(500);
    const turn = ++job.turns;
    Object.assign(arrival, { isAccepted: true, turn, isBehind: this.isAtWork(jobId) });
    world.note('accepted', prompt, 'turn', turn, arrival.isBehind ? 'behind another' : '');
    const beginMs = Math.max(nowMs, job.busyUntilMs) + chance.between(0, settings.showMs);
    this.#set(jobId, beginMs, { id: jobId, status: 'active', prLink: this.#keptLink(jobId), turn });
    this.#endTurn(jobId, turn, beginMs + chance.between(this.#turnMs[0]!, this.#turnMs[1]!));
    if (until.failing > nowMs && chance.happens(0.4)) return responseOf(502);
    const shown = job.states.findLast(({ atMs }) => atMs <= nowMs)!.job;
    return chance.happens(0.5) ? responseOf(200, 'job', { job: { ...shown } }) : responseOf(202, 'none');
  }

  #job = (jobId: string): AgentJob => this.jobs.get(jobId)!.states.at(-1)!.job;
  #keptLink = (jobId: string) => (this.#keepsLink ? (this.#job(jobId).prLink ?? null) : null);
  #retryAfter = () => (this.#saysRetryAfter ? { retryAfterMs: this.world.chance.whole(1_000, 120_000) } : {});

  #endTurn(jobId: string, turn: number, atMs: number): void {
    const { chance } = this.world;
    const status = chance.happens(0.85) ? 'completed' : 'failed';
    const hasNewLink = status === 'completed' && chance.happens(0.6);
    this.jobs.get(jobId)!.busyUntilMs = atMs;
    const prLink = hasNewLink ? `https://pr/${jobId}/${turn}` : this.#keptLink(jobId);
    this.#set(jobId, atMs, { id: jobId, status, prLink, turn });
  }

  #set(jobId: string, atMs: number, job: AgentJob): void {
    this.jobs.get(jobId)!.states.push({ atMs, job });
  }
}
