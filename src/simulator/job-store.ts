import { z } from 'zod';
import { idSchema } from '../contract/ids.js';
import { pullRequestLink, recipeFor, type ServiceJob, SimulatedJob, type Turn } from './simulated-job.js';
import type { SimulatorSettings } from './options.js';
import { pickByWeight, type Random } from './random.js';

const behaviourSchema = z.strictObject({
  outcome: z.enum(['completed', 'failed', 'archived']).optional(),
  prLinkAfterTurn: z.union([z.enum(['new', 'same', 'none']), z.strictObject({ url: z.string() })]).optional(),
  turnFactor: z.number().positive().optional(),
  neverEnds: z.boolean().optional(),
});

/** A job to be made. */
export const newJobSchema = z.strictObject({
  projectId: idSchema,
  jobId: idSchema,
  /** Any text; `active` starts a turn that somebody else requested. @default 'completed' */
  status: z.string().optional(),
  /** Default: as the option `initialPrLink` says. */
  prLink: z.string().nullable().optional(),
  /** Default: now for an archived job, else `null`. ISO 8601. */
  archivedAt: z.string().nullable().optional(),
  ref: z.string().nullable().optional(),
  model: z.string().optional(),
  createdAt: z.string().optional(),
  /** Default: what the beginning of `jobId` says. */
  behaviour: behaviourSchema.optional(),
});
export type NewJob = z.input<typeof newJobSchema>;

/** A change that somebody else makes to a job. */
export const jobChangeSchema = z.strictObject({
  projectId: idSchema,
  jobId: idSchema,
  status: z.string().optional(),
  prLink: z.string().nullable().optional(),
  archivedAt: z.string().nullable().optional(),
});
export type JobChange = z.input<typeof jobChangeSchema>;

/** A job's true state, and counts of its requests. */
export interface JobSnapshot extends ServiceJob {
  projectId: string;
  /** Messages that were taken. */
  messages: number;
  /** Requests by method, including those that were refused or struck by a fault. */
  gets: number;
  posts: number;
}

/** All jobs of all projects, and the requests for each, even for unknown ones. */
export class JobStore {
  readonly #jobs = new Map<string, { projectId: string; job: SimulatedJob }>();
  readonly #requests = new Map<string, { gets: number; posts: number }>();
  readonly #settings: () => SimulatorSettings;
  readonly #random: Random;

  constructor(settings: () => SimulatorSettings, random: Random) {
    this.#settings = settings;
    this.#random = random;
  }

  /** Makes a job, or replaces one. */
  add(input: z.output<typeof newJobSchema>, nowMs: number): void {
    const { projectId, jobId } = input;
    const { initialStatus, ...behaviour } = recipeFor(jobId) ?? {};
    const status = input.status ?? initialStatus ?? 'completed';
    const repository = `https://git.example/${projectId}/${jobId}`;
    const initialPrLink = this.#settings().initialPrLink ? pullRequestLink(repository, 1) : null;
    const now = new Date(nowMs).toISOString();
    const job = new SimulatedJob(
      {
        id: jobId,
        status,
        source: { repository, ref: input.ref === undefined ? 'main' : input.ref },
        model: input.model ?? 'simulated-agent-1',
        prLink: input.prLink === undefined ? initialPrLink : input.prLink,
        createdAt: input.createdAt ?? now,
        archivedAt: input.archivedAt === undefined ? (status === 'archived' ? now : null) : input.archivedAt,
      },
      { ...behaviour, ...input.behaviour },
    );
    this.#jobs.set(key(projectId, jobId), { projectId, job });
    if (status === 'active') job.begin(nowMs, this.turnFor(projectId, jobId, job));
  }

  /** The job; with `autoCreate` it is created if its id allows. */
  find(projectId: string, jobId: string, nowMs: number): SimulatedJob | undefined {
    const existing = this.#jobs.get(key(projectId, jobId))?.job;
    if (existing || !this.#settings().autoCreate || !recipeFor(jobId)) return existing;
    this.add({ projectId, jobId }, nowMs);
    return this.#jobs.get(key(projectId, jobId))?.job;
  }

  /** @throws if the job does not exist */
  change({ projectId, jobId, ...change }: z.output<typeof jobChangeSchema>): void {
    const job = this.#jobs.get(key(projectId, jobId))?.job;
    if (!job) throw new Error(`job ${projectId}/${jobId} does not exist; add it first`);
    job.set(change);
  }

  /** Draws a job's next turn; equal seeds, ids and message counts give equal turns. */
  turnFor(projectId: string, jobId: string, job: SimulatedJob): Turn {
    const { turn, outcomes, prLinkAfterTurn, prLinkWhileActive, staleWindowMs } = this.#settings();
    const random = this.#random.fork(`turn ${key(projectId, jobId)} ${job.messages}`);
    const drawnMs = random.between(turn.minMs, turn.maxMs);
    const drawnOutcome = pickByWeight(outcomes, random);
    const { behaviour } = job;
    return {
      durationMs: behaviour.neverEnds ? Number.POSITIVE_INFINITY : Math.round(drawnMs * (behaviour.turnFactor ?? 1)),
      outcome: behaviour.outcome ?? drawnOutcome,
      prLink: behaviour.prLinkAfterTurn ?? prLinkAfterTurn,
      prLinkWhileActive,
      staleWindowMs,
    };
  }

  /** Counts a request and returns its number, from 1, among those with this method to this job. */
  countRequest(method: 'GET' | 'POST', projectId: string, jobId: string): number {
    const counts = this.requests(projectId, jobId);
    this.#requests.set(key(projectId, jobId), counts);
    return method === 'GET' ? ++counts.gets : ++counts.posts;
  }

  requests(projectId: string, jobId: string): { gets: number; posts: number } {
    return this.#requests.get(key(projectId, jobId)) ?? { gets: 0, posts: 0 };
  }

  snapshot(projectId: string, jobId: string, nowMs: number): JobSnapshot | undefined {
    const job = this.#jobs.get(key(projectId, jobId))?.job;
    if (!job) return undefined;
    return { projectId, ...job.truth(nowMs), messages: job.messages, ...this.requests(projectId, jobId) };
  }

  snapshots(nowMs: number): JobSnapshot[] {
    return [...this.#jobs.values()].flatMap(
      ({ projectId, job }) => this.snapshot(projectId, job.truth(nowMs).id, nowMs) ?? [],
    );
  }
}

/** Ids hold no slash. */
function key(projectId: string, jobId: string): string {
  return `${projectId}/${jobId}`;
}
