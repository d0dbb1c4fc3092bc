import { followUpWorkflowId } from '../src/contract/index.js';
import type { FollowUpRecord } from './follow-up-record.js';
import { FollowUpRun, type FollowUpSurroundings } from './follow-up-run.js';
import type { World } from './world.js';

/**
 * The wait that production allows before the send. Without the `giveUp` fault no simulated follow-up waits that long.
 */
const UNLIMITED_WAIT_MS = 7 * 86_400_000;

/** In the profile `busy`, this many follow-ups share a job. */
const SHARING = 8;
const SHARED_JOB = 'same';

interface Member {
  record: FollowUpRecord;
  run: FollowUpRun;
}

/** All follow-ups of one seed, and what happens to them: cancel, terminate, workflow reset. */
export class Crowd {
  readonly #world: World;
  readonly #members = new Map<string, Member>();
  readonly records: FollowUpRecord[];

  constructor(world: World) {
    this.#world = world;
    this.records = drawRecords(world);
  }

  /** Plans the start of every follow-up and what happens to it. */
  plan(surroundings: FollowUpSurroundings): void {
    const { chance, timeline, profile } = this.#world;
    this.records.forEach((record, index) => {
      const { startsAtMs } = record;
      timeline.at(startsAtMs, () => this.#start(surroundings, record));
      const later = () => startsAtMs + chance.between(10, 150_000);
      if (this.#isHit('cancel')) timeline.at(later(), () => this.#cancel(record));
      if (this.#isHit('terminate')) timeline.at(later(), () => this.#terminate(record));
      if (profile === 'dead' && index >= 5 && index < 105 && index % 5 === 0) {
        timeline.at(3_000, () => this.#terminate(record));
      }
      if (this.#isHit('workflowReset')) timeline.at(later(), () => this.#reset(surroundings, record));
    });
  }

  /** A signal from the budget. Returns whether the follow-up runs. */
  signal(workflowId: string, what: 'wake' | 'stillThere'): boolean {
    const member = this.#members.get(workflowId);
    if (!member || member.record.ending) return false;
    if (what === 'wake') member.run.wake();
    return true;
  }

  /** The follow-up with this workflow id. */
  record(workflowId: string): FollowUpRecord | undefined {
    return this.#members.get(workflowId)?.record;
  }

  #isHit(fault: 'cancel' | 'terminate' | 'workflowReset'): boolean {
    return this.#world.chance.happens(this.#world.faults.rates[fault]);
  }

  #start(surroundings: FollowUpSurroundings, record: FollowUpRecord, before?: FollowUpRun): void {
    const startedAtMs = before?.startedAtMs ?? surroundings.clock.nowMs();
    record.hasToldEnd = false;
    const run = new FollowUpRun(surroundings, record, startedAtMs, before === undefined);
    this.#members.set(record.workflowId, { record, run });
    run.process.start(run.steps(), (ending) => {
      record.ending = ending;
      record.endedAtMs = this.#world.timeline.nowMs;
      this.#world.note('END', record.workflowId, ending.result, 'delivered', ending.delivered);
    });
  }

  #cancel({ workflowId, ending }: FollowUpRecord): void {
    if (ending) return;
    this.#world.note('CANCEL', workflowId);
    this.#members.get(workflowId)?.run.cancel();
  }

  #terminate(record: FollowUpRecord): void {
    if (record.ending) return;
    this.#world.note('TERMINATE', record.workflowId);
    this.#members.get(record.workflowId)?.run.process.kill();
    record.ending = 'terminated';
  }

  /**
   * Resets a follow-up to its start, whether it still runs or has ended. This starts a new run of the same workflow id.
   */
  #reset(surroundings: FollowUpSurroundings, record: FollowUpRecord): void {
    const before = this.#members.get(record.workflowId)?.run;
    if (!before) return;
    this.#world.note('RESET', record.workflowId);
    before.process.kill();
    delete record.ending;
    this.#start(surroundings, record, before);
  }
}

function drawRecords(world: World): FollowUpRecord[] {
  const { calm, chance, sizes } = world;
  if (!calm) {
    const count = chance.whole(8, sizes.limit * 5);
    const jobs = chance.whole(2, count + 1);
    return Array.from({ length: count }, (_, index) =>
      recordOf(world, {
        index,
        jobId: `j${chance.whole(0, jobs - 1)}`,
        lane: chance.happens(0.3) ? 'interactive' : 'batch',
        startsAtMs: chance.between(0, 60_000),
      }),
    );
  }
  const starts = calm.arrivals.flatMap(({ lane, count, fromMs = 0, everyMs }) =>
    Array.from({ length: count }, (_, index) => ({ lane, startsAtMs: fromMs + index * everyMs })),
  );
  return starts.map((start, index) => {
    const jobId = world.profile === 'busy' && index < SHARING ? SHARED_JOB : `j${index}`;
    return recordOf(world, { index, jobId, ...start });
  });
}

function recordOf(
  { calm, chance, faults, sizes }: World,
  { index, jobId, lane, startsAtMs }: Pick<FollowUpRecord, 'jobId' | 'lane' | 'startsAtMs'> & { index: number },
): FollowUpRecord {
  const givesUp = chance.happens(faults.rates.giveUp);
  const turnMs = { min: 500, max: calm ? sizes.windowMs / 20 : 30_000 };
  return {
    workflowId: followUpWorkflowId({ projectId: 'p', jobId, key: `w${index}` }),
    jobId,
    lane,
    startsAtMs,
    onUnknownDelivery: calm ? 'fail' : policyOf(chance.between(0, 1)),
    budgetWaitTimeoutMs: givesUp ? chance.whole(20_000, 200_000) : UNLIMITED_WAIT_MS,
    jobAtWorkUntilMs: chance.happens(faults.rates.hold) ? chance.between(0, 150_000) : 0,
    turnMs: jobId === SHARED_JOB ? { min: 50_000, max: 70_000 } : turnMs,
    showsDelivery: chance.happens(0.6),
    staleForMs: chance.between(0, sizes.settleTimeMs * (calm ? 0.05 : 0.7)),
    beganPost: false,
    hasAsked: false,
    hasToldEnd: false,
  };
}

function policyOf(draw: number): FollowUpRecord['onUnknownDelivery'] {
  if (draw < 0.8) return 'fail';
  return draw < 0.9 ? 'assumeSent' : 'resend';
}
