/** A job as the service shows it. */
export interface ServiceJob {
  id: string;
  /** One of the four of the interface, or any text that a test wants to be shown. */
  status: string;
  source: { repository: string; ref: string | null };
  model: string;
  prLink: string | null;
  createdAt: string;
  archivedAt: string | null;
}

/** What happens to one accepted message. */
export interface Turn {
  /** `Infinity`: it never ends. */
  durationMs: number;
  outcome: 'completed' | 'failed' | 'archived';
  prLink: 'new' | 'same' | 'none' | { url: string };
  prLinkWhileActive: 'null' | 'kept';
  staleWindowMs: number;
}

type Changing = Pick<ServiceJob, 'status' | 'prLink' | 'archivedAt'>;

/**
 * The state machine of one job. Has no timers: its state follows from the given instant, in epoch
 * milliseconds, which must not go back.
 */
export class SimulatedJob {
  readonly #fixed: Omit<ServiceJob, keyof Changing>;
  #state: Changing;
  #turn: { endsAtMs: number; end: Changing; linkBefore: string | null } | undefined;
  #stale: { untilMs: number; shown: ServiceJob } | undefined;
  #pullRequests: number;
  readonly behaviour: JobBehaviour;
  /** Messages taken. */
  messages = 0;

  constructor(job: ServiceJob, behaviour: JobBehaviour) {
    const { status, prLink, archivedAt, ...fixed } = job;
    this.#fixed = fixed;
    this.#state = { status, prLink, archivedAt };
    this.#pullRequests = prLink === null ? 0 : 1;
    this.behaviour = behaviour;
  }

  /** The true state of the job. */
  truth(nowMs: number): ServiceJob {
    if (this.#turn && this.#turn.endsAtMs <= nowMs) {
      this.#state = this.#turn.end;
      this.#turn = undefined;
    }
    return { ...this.#fixed, ...this.#state };
  }

  /** The job as a read shows it: within the stale window, as before the message. */
  shown(nowMs: number): ServiceJob {
    const truth = this.truth(nowMs);
    return this.#stale && nowMs < this.#stale.untilMs ? this.#stale.shown : truth;
  }

  /** Accepts a message: the agent works from now on. A running turn is steered, and its end moves. */
  message(nowMs: number, turn: Turn): void {
    const shown = this.shown(nowMs);
    this.#stale = turn.staleWindowMs > 0 ? { untilMs: nowMs + turn.staleWindowMs, shown } : undefined;
    this.messages++;
    this.#begin(nowMs, turn);
  }

  /** Starts a turn without a message, as if somebody else had requested it. */
  begin(nowMs: number, turn: Turn): void {
    this.truth(nowMs);
    this.#begin(nowMs, turn);
  }

  /** Changes what the service shows from now on; a running turn is dropped. */
  set(change: { [K in keyof Changing]?: Changing[K] | undefined }): void {
    this.#turn = undefined;
    this.#stale = undefined;
    const { status, prLink, archivedAt } = this.#state;
    this.#state = {
      status: change.status ?? status,
      prLink: change.prLink === undefined ? prLink : change.prLink,
      archivedAt: change.archivedAt === undefined ? archivedAt : change.archivedAt,
    };
  }

  #begin(nowMs: number, turn: Turn): void {
    const linkBefore = this.#turn ? this.#turn.linkBefore : this.#state.prLink;
    this.#state = {
      status: 'active',
      prLink: turn.prLinkWhileActive === 'kept' ? linkBefore : null,
      archivedAt: this.#state.archivedAt,
    };
    const endsAtMs = nowMs + turn.durationMs;
    this.#turn = {
      endsAtMs,
      linkBefore,
      end: {
        status: turn.outcome,
        // A failed turn keeps the pull request of the previous turn.
        prLink: turn.outcome === 'failed' ? linkBefore : this.#linkAfter(turn.prLink, linkBefore),
        archivedAt: turn.outcome === 'archived' ? isoAt(endsAtMs) : this.#state.archivedAt,
      },
    };
  }

  #linkAfter(rule: Turn['prLink'], before: string | null): string | null {
    if (typeof rule === 'object') return rule.url;
    if (rule === 'none') return null;
    if (rule === 'same' && before !== null) return before;
    this.#pullRequests++;
    return pullRequestLink(this.#fixed.source.repository, this.#pullRequests);
  }
}

/** An instant as the service writes it. `Infinity`, the end of an endless turn, has no date. */
function isoAt(instantMs: number): string | null {
  return Number.isFinite(instantMs) ? new Date(instantMs).toISOString() : null;
}

/** Link of a repository's pull request. */
export function pullRequestLink(repository: string, number: number): string {
  return `${repository}/pull/${number}`;
}

/** How a job handles messages. Defaults come from the simulator's options. */
interface JobBehaviour {
  /** Status at the end of each turn. */
  outcome?: 'completed' | 'failed' | 'archived' | undefined;
  /** Pull request at the end of a turn: a new one, the previous one, none, or this text. */
  prLinkAfterTurn?: 'new' | 'same' | 'none' | { url: string } | undefined;
  /** Factor on the length of turns. @default 1 */
  turnFactor?: number | undefined;
  /** Turns never end. @default false */
  neverEnds?: boolean | undefined;
}

/** The behaviour of an automatically created job, from its id. */
interface JobRecipe extends JobBehaviour {
  /** Status before the first message. @default 'completed' */
  initialStatus?: 'active' | 'archived';
}

/**
 * Behaviour of jobs by the prefix of their id, so that a demonstration needs no set-up. Other ids follow the options.
 *
 * | id | behaviour |
 * |---|---|
 * | `fail-…` | its turns end `failed` |
 * | `archive-…` | gets archived at the end of its turn |
 * | `archived-…` | is archived from the start; a message is refused with 400 |
 * | `nopr-…` | completes without a pull request |
 * | `same-…` | completes with the pull request it had before |
 * | `slow-…` | its turns take ten times as long |
 * | `active-…` | is at work when first asked for, for one turn |
 * | `stuck-…` | its turns never end |
 * | `missing-…` | does not exist, also with `autoCreate` |
 */
const recipes: Readonly<Record<string, JobRecipe>> = {
  fail: { outcome: 'failed' },
  archive: { outcome: 'archived' },
  archived: { initialStatus: 'archived' },
  nopr: { prLinkAfterTurn: 'none' },
  same: { prLinkAfterTurn: 'same' },
  slow: { turnFactor: 10 },
  active: { initialStatus: 'active' },
  stuck: { neverEnds: true },
};

/** The recipe for a job id; `undefined` if no such job is created. */
export function recipeFor(jobId: string): JobRecipe | undefined {
  const prefix = jobId.slice(0, Math.max(0, jobId.indexOf('-')));
  if (prefix === 'missing') return undefined;
  return Object.hasOwn(recipes, prefix) ? recipes[prefix] : {};
}
