import type { Random } from './random.js';
import type { SimulatorSettings } from './simulator-options.js';

export interface ServiceJob {
  id: string;
  status: 'active' | 'completed' | 'failed' | 'archived';
  source: { repository: string; ref: string };
  model: string;
  prLink: string | null;
  createdAt: string;
  archivedAt: string | null;
}

interface JobBehaviour {
  /** Status at the end of each turn. @default 'completed' */
  outcome?: 'completed' | 'failed' | 'archived';
  /** Pull request at the end of a successful turn: `new`, the previous one, none, or this text. @default 'new' */
  prLinkAfterTurn?: 'new' | 'same' | 'none' | { url: string };
  /** Factor for the length of turns. @default 1 */
  turnFactor?: number;
  /** Turns never end. @default false */
  neverEnds?: boolean;
}

export interface NewJob {
  projectId: string;
  jobId: string;
  /** `active` starts a turn without a message. Default: by the start of `jobId`, otherwise `completed`. */
  status?: ServiceJob['status'];
  /** Overrides the behaviour by the start of `jobId`. */
  behaviour?: JobBehaviour;
}

export interface JobChange extends Partial<Pick<ServiceJob, 'status' | 'prLink'>> {
  projectId: string;
  jobId: string;
}

/** A job without timers: its state follows from the given time, in epoch milliseconds, which must not go back. */
export class SimulatedJob {
  messages = 0;
  #state: ServiceJob;
  #turn: { endsAtMs: number; linkBefore: string | null } | undefined;
  #stale: { untilMs: number; shown: ServiceJob } | undefined;
  #pullRequests = 1;

  /** @param random of this job alone, so that its turns depend only on its messages */
  constructor(
    job: Omit<ServiceJob, 'prLink'>,
    private readonly behaviour: JobBehaviour,
    private readonly settings: Pick<SimulatorSettings, 'turn' | 'staleWindowMs'>,
    private readonly random: Random,
  ) {
    this.#state = { ...job, prLink: this.#pullRequestLink(job.source.repository) };
  }

  truth(nowMs: number): ServiceJob {
    const turn = this.#turn;
    if (!turn || nowMs < turn.endsAtMs) return this.#state;
    const { outcome: status = 'completed' } = this.behaviour;
    this.#turn = undefined;
    this.#state = {
      ...this.#state,
      status,
      // A failed turn keeps the pull request of the previous turn.
      prLink: status === 'failed' ? turn.linkBefore : this.#linkAfter(turn.linkBefore),
      archivedAt: status === 'archived' ? new Date(turn.endsAtMs).toISOString() : this.#state.archivedAt,
    };
    return this.#state;
  }

  /** The job as a read shows it: as before the message during the stale window. */
  shown(nowMs: number): ServiceJob {
    const truth = this.truth(nowMs);
    return this.#stale && nowMs < this.#stale.untilMs ? this.#stale.shown : truth;
  }

  /** Accepts a message: the agent starts to work. A running turn is steered, and its end moves. */
  message(nowMs: number): void {
    this.#stale = { untilMs: nowMs + this.settings.staleWindowMs, shown: this.shown(nowMs) };
    this.messages++;
    this.begin(nowMs);
  }

  begin(nowMs: number): void {
    const { prLink } = this.truth(nowMs);
    const { turnFactor = 1, neverEnds = false } = this.behaviour;
    const drawnMs = this.random.between(this.settings.turn.minMs, this.settings.turn.maxMs);
    const durationMs = neverEnds ? Number.POSITIVE_INFINITY : Math.round(drawnMs * turnFactor);
    this.#turn = { endsAtMs: nowMs + durationMs, linkBefore: this.#turn ? this.#turn.linkBefore : prLink };
    this.#state = { ...this.#state, status: 'active', prLink: null };
  }

  /** Changes what the service shows from now on; drops a running turn. */
  set(change: Partial<ServiceJob>): void {
    this.#turn = undefined;
    this.#stale = undefined;
    this.#state = { ...this.#state, ...change };
  }

  #linkAfter(before: string | null): string | null {
    const { prLinkAfterTurn: rule = 'new' } = this.behaviour;
    if (typeof rule === 'object') return rule.url;
    if (rule === 'none') return null;
    if (rule === 'same' && before !== null) return before;
    this.#pullRequests++;
    return this.#pullRequestLink(this.#state.source.repository);
  }

  #pullRequestLink(repository: string): string {
    return `${repository}/pull/${this.#pullRequests}`;
  }
}

/**
 * Behaviour of jobs by their id up to the first `-`, so that demonstrations need no set-up. `missing-…` never exists.
 */
const recipes = new Map<string, JobBehaviour & Pick<NewJob, 'status'>>([
  ['fail', { outcome: 'failed' }],
  ['archive', { outcome: 'archived' }],
  ['archived', { status: 'archived' }],
  ['nopr', { prLinkAfterTurn: 'none' }],
  ['same', { prLinkAfterTurn: 'same' }],
  ['slow', { turnFactor: 10 }],
  ['active', { status: 'active' }],
  ['stuck', { neverEnds: true }],
]);

const prefixOf = (jobId: string): string => jobId.slice(0, Math.max(0, jobId.indexOf('-')));

export class JobStore {
  readonly #jobs = new Map<string, SimulatedJob>();

  constructor(
    private readonly settings: SimulatorSettings,
    private readonly random: Random,
  ) {}

  add({ projectId, jobId, ...input }: NewJob, nowMs: number): SimulatedJob {
    const { status: initialStatus = 'completed', ...behaviour } = recipes.get(prefixOf(jobId)) ?? {};
    const { status = initialStatus } = input;
    const now = new Date(nowMs).toISOString();
    const job = new SimulatedJob(
      {
        id: jobId,
        status,
        source: { repository: `https://git.example/${projectId}/${jobId}`, ref: 'main' },
        model: 'simulated-agent-1',
        createdAt: now,
        archivedAt: status === 'archived' ? now : null,
      },
      { ...behaviour, ...input.behaviour },
      this.settings,
      this.random.fork(`job ${projectId}/${jobId}`),
    );
    this.#jobs.set(`${projectId}/${jobId}`, job);
    if (status === 'active') job.begin(nowMs);
    return job;
  }

  get(projectId: string, jobId: string): SimulatedJob | undefined {
    return this.#jobs.get(`${projectId}/${jobId}`);
  }

  /** Finds a job; with `autoCreate`, creates it if its id allows. */
  find(projectId: string, jobId: string, nowMs: number): SimulatedJob | undefined {
    const isCreated = this.settings.autoCreate && prefixOf(jobId) !== 'missing';
    return this.get(projectId, jobId) ?? (isCreated ? this.add({ projectId, jobId }, nowMs) : undefined);
  }
}
