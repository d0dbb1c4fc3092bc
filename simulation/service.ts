import type { AgentJob } from '../src/contract/index.js';
import type { GetJobResult } from '../src/follow-up/port.js';
import { createLimiter, type Limiter } from '../src/simulator/limiter.js';
import type { FollowUpRecord } from './follow-up-record.js';
import { HEALED_AT_MS } from './sizes.js';
import type { World } from './world.js';

const HOUR_MS = 3_600_000;

/** The service's answer to a message. */
export interface ServiceAnswer {
  status: 200 | 400 | 401 | 429 | 504;
  retryAfterMs?: number;
}

/** One message request, as the service saw it. */
export interface LedgerEntry {
  atMs: number;
  workflowId: string;
  accepted: boolean;
}

/** The agent job service, with its own ledger and its own limiter. It never sees what the budget believes. */
export class Service {
  readonly ledger: LedgerEntry[] = [];
  /** By workflow id: when the turn of its latest delivery ends, in simulated time. */
  readonly turnEndsAtMs = new Map<string, number>();
  readonly #turns = new Map<string, { shownFromMs: number; hasNewLink: boolean }>();
  readonly #records = new Map<string, FollowUpRecord>();
  readonly #world: World;
  readonly #limiter: Limiter;
  readonly #badCredentials: { fromMs: number; toMs: number };
  /** Whether it also refuses reads while it refuses messages for their key. */
  readonly #refusesReads: boolean;

  constructor(world: World) {
    this.#world = world;
    const { calm, chance, faults, timeline, profile, sizes } = world;
    const { limiter = 'sliding', burst, outsiders = 0 } = calm?.service ?? {};
    this.#limiter = createLimiter({ kind: limiter, limit: sizes.limit, windowMs: sizes.windowMs, burst });
    const fromMs = chance.between(0, HEALED_AT_MS - 40_000);
    const lengthMs = faults.rates.badCredentials * chance.between(5_000, 40_000);
    this.#badCredentials = profile === 'herd' ? { fromMs: 0, toMs: 30_000 } : { fromMs, toMs: fromMs + lengthMs };
    this.#refusesReads = profile !== 'herd' && chance.happens(0.5);
    // An outsider always gets a slot: if none is left, it takes the next message that the service accepts.
    const spend = (): void => {
      if (!this.#limiter.take(timeline.nowMs)) timeline.after(this.#limiter.availableInMs(timeline.nowMs), spend);
    };
    for (let message = 0; message < faults.rates.outsiders * 8; message++) {
      timeline.at(chance.between(0, HEALED_AT_MS), spend);
    }
    for (let window = 0; calm && outsiders > 0 && window * sizes.windowMs < calm.endMs; window++) {
      for (let message = 0; message < outsiders; message++) {
        timeline.at(chance.between(window, window + 1) * sizes.windowMs, spend);
      }
    }
  }

  /** Receives a message. A gateway in front may answer 504 to one that was accepted. */
  take(workflowId: string): ServiceAnswer {
    const { chance, chaotic, timeline } = this.#world;
    const nowMs = timeline.nowMs;
    const entry = { atMs: nowMs, workflowId, accepted: false };
    this.ledger.push(entry);
    const answer = this.#judge(nowMs);
    if (answer) {
      this.#world.note('  service', workflowId, answer.status);
      return answer;
    }
    entry.accepted = true;
    this.#beginTurn(workflowId);
    this.#world.note('  DELIVERED', workflowId);
    return { status: chaotic && chance.happens(0.02) ? 504 : 200 };
  }

  /** Registers the follow-ups whose messages may come. */
  admit(records: readonly FollowUpRecord[]): void {
    for (const record of records) this.#records.set(record.workflowId, record);
  }

  /** The job as the reads of one follow-up show it. Turns that others start are not in it. */
  getJob({ workflowId, jobAtWorkUntilMs }: FollowUpRecord): GetJobResult {
    if (this.#refusesReads && this.#refusesKey()) {
      return { kind: 'failed', reason: 'unauthorized', message: 'HTTP 401', statusCode: 401 };
    }
    const { nowMs } = this.#world.timeline;
    const isForOthers = nowMs < jobAtWorkUntilMs;
    const before: AgentJob = { status: isForOthers ? 'active' : 'completed', prLink: 'https://example.com/1' };
    const turn = this.#turns.get(workflowId);
    if (!turn || nowMs < turn.shownFromMs) return { kind: 'job', job: before };
    if (nowMs < (this.turnEndsAtMs.get(workflowId) ?? 0)) return { kind: 'job', job: { ...before, status: 'active' } };
    return { kind: 'job', job: turn.hasNewLink ? { ...before, prLink: 'https://example.com/2' } : before };
  }

  /** A turn that the job does not show is over before anybody can see it. */
  #beginTurn(workflowId: string): void {
    const record = this.#records.get(workflowId);
    if (!record) return;
    const { chance, timeline } = this.#world;
    const { showsDelivery, staleForMs, turnMs } = record;
    const shownFromMs = timeline.nowMs + staleForMs;
    const lengthMs = showsDelivery ? chance.between(turnMs.min, turnMs.max) : 0;
    this.#turns.set(workflowId, { shownFromMs, hasNewLink: showsDelivery && chance.happens(0.7) });
    this.turnEndsAtMs.set(workflowId, shownFromMs + lengthMs);
  }

  /** Messages that were accepted in each hour except the last, which is incomplete. */
  takenEachHour(): number[] {
    const accepted = this.ledger.filter((entry) => entry.accepted);
    const hours = Math.floor((accepted.at(-1)?.atMs ?? 0) / HOUR_MS);
    return Array.from(
      { length: hours },
      (_, hour) => accepted.filter(({ atMs }) => Math.floor(atMs / HOUR_MS) === hour).length,
    );
  }

  #refusesKey(): boolean {
    const { nowMs } = this.#world.timeline;
    return nowMs >= this.#badCredentials.fromMs && nowMs < this.#badCredentials.toMs;
  }

  #judge(nowMs: number): ServiceAnswer | undefined {
    const { calm, chance, chaotic } = this.#world;
    if (this.#refusesKey()) return { status: 401 };
    if (chaotic && chance.happens(0.01)) return { status: 400 };
    const retryAfterMs = Math.ceil(this.#limiter.availableInMs(nowMs));
    if (retryAfterMs === 0 && this.#limiter.take(nowMs)) return undefined;
    const saysRetryAfter = calm?.service?.saysRetryAfter ?? chance.happens(0.3);
    return saysRetryAfter ? { status: 429, retryAfterMs } : { status: 429 };
  }
}
