import { PROBED_FOR_MS, SILENT_AFTER_MS } from './ask-again.js';

/**
 * After this time without any answer only a few asks keep waiting, so that one project's asks leave room for others.
 */
const SLOW_AFTER_MS = 2_000;
const MOST_WHILE_SLOW = 20;

/** Why an ask was released without an answer. `slow`: others of its project still wait. */
export type LetGo = 'slow' | 'silent';

interface Held {
  letGo: (why: LetGo) => void;
}

export interface PatienceOptions {
  /** Finds out whether a silent budget answers again. A rejection means that it does not. */
  probe: () => Promise<void>;
  /** Called when the budget has fallen silent, and with `undefined` when it answers again. */
  onChange: (silentForMs: number | undefined) => void;
}

/**
 * Decides how long asks of one project wait for its budget. While the budget answers, they wait as long as they like.
 * When it has answered nobody for {@link SLOW_AFTER_MS}, all but a few are released. After {@link SILENT_AFTER_MS} all
 * are released, and later asks are answered at once: only one call at a time finds out whether the budget is back. So a
 * budget that runs without answering holds up neither the follow-ups that ask it nor, through the slots that their
 * activities take, other projects.
 */
export class Patience {
  readonly #options: PatienceOptions;
  readonly #held = new Set<Held>();
  /** Since when somebody has been waiting while nobody was answered. */
  #unansweredSinceMs: number | undefined;
  #silentSinceMs: number | undefined;
  #probe: Promise<boolean> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: PatienceOptions) {
    this.#options = options;
  }

  /** Whether nobody waits and the budget is not known to be silent, so that there is nothing to remember. */
  get isIdle(): boolean {
    return this.#held.size === 0 && this.#silentSinceMs === undefined;
  }

  /** How long the budget has been silent; 0 if it is not. */
  get silentForMs(): number {
    return this.#silentSinceMs === undefined ? 0 : performance.now() - this.#silentSinceMs;
  }

  /**
   * Waits for an ask's answer while there is patience, and at most `forMs`. The caller handles a rejection of `ask`.
   */
  async wait<T>(ask: Promise<T>, forMs: number): Promise<T | LetGo> {
    this.#unansweredSinceMs ??= performance.now();
    const sinceMs = performance.now() - this.#unansweredSinceMs;
    if (sinceMs >= SLOW_AFTER_MS && this.#held.size >= MOST_WHILE_SLOW) return 'slow';
    let held: Held | undefined;
    const letGo = new Promise<LetGo>((resolve) => {
      held = { letGo: resolve };
      this.#held.add(held);
    });
    const latest = setTimeout(() => held?.letGo('slow'), forMs);
    this.#setTimer();
    try {
      return await Promise.race([ask, letGo]);
    } finally {
      clearTimeout(latest);
      if (held) this.#held.delete(held);
      if (this.#held.size === 0) this.#rest();
    }
  }

  /** The budget, or the server on its behalf, has answered an ask. */
  answered(): void {
    this.#unansweredSinceMs = this.#held.size > 0 ? performance.now() : undefined;
    if (this.#silentSinceMs === undefined) return;
    this.#silentSinceMs = undefined;
    this.#options.onChange(undefined);
  }

  /** The budget cannot be asked, so it will not answer those that wait either. */
  fallSilent(): void {
    if (this.#silentSinceMs === undefined) {
      this.#silentSinceMs = this.#unansweredSinceMs ?? performance.now();
      this.#options.onChange(this.silentForMs);
    }
    for (const { letGo } of this.#held) letGo('silent');
  }

  /**
   * Whether a silent budget answers again. One call at a time finds out. The caller that starts it waits for it for a
   * second; callers in the meantime do not wait.
   */
  async isBack(): Promise<boolean> {
    if (this.#silentSinceMs === undefined) return true;
    if (this.#probe) return false;
    const probe = this.#options
      .probe()
      .then(
        () => {
          this.answered();
          return true;
        },
        () => false,
      )
      .finally(() => (this.#probe = undefined));
    this.#probe = probe;
    return new Promise((resolve) => {
      const enough = setTimeout(() => resolve(false), PROBED_FOR_MS);
      void probe.then((isBack) => {
        clearTimeout(enough);
        resolve(isBack);
      });
    });
  }

  #setTimer(): void {
    if (this.#timer !== undefined || this.#unansweredSinceMs === undefined) return;
    const waitedMs = performance.now() - this.#unansweredSinceMs;
    const nextMs = waitedMs < SLOW_AFTER_MS ? SLOW_AFTER_MS : SILENT_AFTER_MS;
    this.#timer = setTimeout(() => this.#look(), Math.max(1, nextMs - waitedMs));
  }

  #look(): void {
    this.#timer = undefined;
    if (this.#unansweredSinceMs === undefined) return;
    const waitedMs = performance.now() - this.#unansweredSinceMs;
    if (waitedMs >= SILENT_AFTER_MS) return this.fallSilent();
    if (waitedMs >= SLOW_AFTER_MS) {
      for (const { letGo } of [...this.#held].slice(MOST_WHILE_SLOW)) letGo('slow');
    }
    this.#setTimer();
  }

  #rest(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#unansweredSinceMs = undefined;
  }
}
