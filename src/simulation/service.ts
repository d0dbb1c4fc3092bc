import { createLimiter, type Limiter } from '../simulator/limiter.js';
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

/** The agent job service: its own ledger and its own limiter. What the gate believes never gets here. */
export class Service {
  readonly ledger: LedgerEntry[] = [];
  readonly #world: World;
  readonly #limiter: Limiter;
  readonly #badCredentials: { fromMs: number; toMs: number };
  /** Whether it refuses reads, too, while it refuses messages for their key. */
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
    // Somebody else gets what he wants: where nothing is left, he has the next message that the service takes.
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

  /** Takes a message; a gateway in front may say 504 to one that was taken. */
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
    this.#world.note('  DELIVERED', workflowId);
    return { status: chaotic && chance.happens(0.02) ? 504 : 200 };
  }

  /** Whether a read is refused for its key now. */
  refusesRead(): boolean {
    return this.#refusesReads && this.#refusesKey();
  }

  /** Messages of a follow-up that were accepted. */
  accepted(workflowId: string): number {
    return this.ledger.filter((entry) => entry.workflowId === workflowId && entry.accepted).length;
  }

  /** Messages that were accepted in each hour but the last, which is not whole. */
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
