import { defined, iso } from '../common/index.js';
import {
  type AgentJob,
  type BlockReason,
  type FollowUpFacts,
  type FollowUpProgress,
  type FollowUpSettings,
  type FollowUpStanding,
  isEndState,
  type WaitReason,
} from '../contract/index.js';
import type { FollowUpPort } from './port.js';

/** Where a follow-up without a slot stands in its project's line. */
type LinePosition = Pick<FollowUpFacts, 'position' | 'expectedSendAt' | 'nextTryAt' | 'pause'>;

/** What a follow-up shows of itself. */
export class Display {
  /** When the last send of the message was granted. */
  lastSendAtMs: number | undefined;
  readonly facts: Omit<FollowUpFacts, 'projectId' | 'jobId' | 'learnedAt'> = { polls: 0 };
  #standing: FollowUpStanding & LinePosition = { state: 'waiting-for-budget', waitReason: 'slot' };

  constructor(
    private readonly settings: FollowUpSettings,
    private readonly port: FollowUpPort,
  ) {}

  get state(): FollowUpProgress['state'] {
    return this.#standing.state;
  }

  progress(): FollowUpProgress {
    const { projectId, jobId } = this.settings;
    return { projectId, jobId, learnedAt: iso(this.port.nowMs()), ...this.facts, ...this.#standing };
  }

  show(standing: FollowUpStanding, linePosition: LinePosition = {}): void {
    this.#standing = { ...standing, ...linePosition };
    if (isEndState(standing.state)) delete this.facts.waitsUntil;
    this.port.show(this.progress(), this.lastSendAtMs);
  }

  noteJob(job: AgentJob, isOwnTurn = false): void {
    const { status: jobStatus, prLink } = job;
    delete this.facts.jobStatus;
    delete this.facts.prLink;
    Object.assign(this.facts, { job, jobSeenAt: iso(this.port.nowMs()) });
    if (isOwnTurn) Object.assign(this.facts, defined({ jobStatus }), prLink && { prLink });
  }

  noteError(message: string | undefined): void {
    if (message !== undefined) this.facts.lastError = { at: iso(this.port.nowMs()), message };
  }
}

/** What a follow-up shows while it waits to send. */
export function standingOf(waitReason: WaitReason | BlockReason): FollowUpStanding {
  if (waitReason === 'slot') return { state: 'waiting-for-budget', waitReason };
  return { state: waitReason === 'job-busy' ? 'waiting-for-job' : 'blocked', waitReason };
}
