import { HEALED_AT_MS, WINDOW_MS } from './sizes.js';
import type { World } from './world.js';

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
  /** Instants at which somebody spent a message of the budget. */
  readonly #spentAtMs: number[] = [];
  readonly #badCredentials: { fromMs: number; toMs: number };

  constructor(world: World) {
    this.#world = world;
    const { chance, faults, timeline, profile } = world;
    const fromMs = chance.between(0, HEALED_AT_MS - 40_000);
    const lengthMs = faults.rates.badCredentials * chance.between(5_000, 40_000);
    this.#badCredentials = profile === 'herd' ? { fromMs: 0, toMs: 30_000 } : { fromMs, toMs: fromMs + lengthMs };
    for (let message = 0; message < faults.rates.outsiders * 8; message++) {
      timeline.at(chance.between(0, HEALED_AT_MS), () => this.#spentAtMs.push(timeline.nowMs));
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
    this.#spentAtMs.push(nowMs);
    entry.accepted = true;
    this.#world.note('  DELIVERED', workflowId);
    return { status: chaotic && chance.happens(0.02) ? 504 : 200 };
  }

  /** Messages of a follow-up that were accepted. */
  accepted(workflowId: string): number {
    return this.ledger.filter((entry) => entry.workflowId === workflowId && entry.accepted).length;
  }

  #judge(nowMs: number): ServiceAnswer | undefined {
    const { chance, chaotic, limit } = this.#world;
    if (nowMs >= this.#badCredentials.fromMs && nowMs < this.#badCredentials.toMs) return { status: 401 };
    if (chaotic && chance.happens(0.01)) return { status: 400 };
    const inWindow = this.#spentAtMs.filter((atMs) => atMs > nowMs - WINDOW_MS).sort((a, b) => a - b);
    const oldest = inWindow[inWindow.length - limit];
    if (oldest === undefined) return undefined;
    return chance.happens(0.3) ? { status: 429, retryAfterMs: Math.ceil(oldest + WINDOW_MS - nowMs) } : { status: 429 };
  }
}
