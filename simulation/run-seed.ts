import { ActivityServer } from './activity.js';
import type { Breakage } from './breakages.js';
import { check, type Verdicts } from './checker.js';
import { Crowd } from './crowd.js';
import { BudgetHost } from './budget-host.js';
import { QueueSampler, sampleEveryMs, type Measures } from './measures.js';
import { Network } from './network.js';
import type { Profile } from './profiles.js';
import { Service } from './service.js';
import { ServerClock, World, type Counts, type Trace } from './world.js';

/**
 * The end of a world with faults. What is not over by then is stuck. A follow-up of a budget that was deleted asks again
 * only when it expects its slot, which can be more than an hour away.
 */
const END_MS = 7_200_000;

/** What to simulate. */
export interface SeedOptions {
  seed: number;
  /** Default: `chaos`. */
  profile?: Profile;
  /** Disabled rules. Default: none. */
  broken?: ReadonlySet<Breakage>;
  /** Receives every step, one line each. */
  trace?: Trace;
}

/** The result of one seed. */
export interface SeedReport {
  seed: number;
  verdicts: Verdicts;
  counts: Counts;
  measures: Measures;
  /** Events that happened. */
  events: number;
  followUps: number;
}

/** Runs one seed. The same options give the same report. */
export function runSeed({ seed, profile = 'chaos', broken = new Set(), trace }: SeedOptions): SeedReport {
  const world = new World(seed, profile, broken, trace);
  const { timeline, counts } = world;
  const measures: Measures = {
    idleMs: 0,
    slotTimeMs: 0,
    etaErrorsMs: [],
    longestStandMs: 0,
    longestPassedOverMs: 0,
    longestInteractiveMs: 0,
    asksInAnyHour: 0,
    takenInLaterHours: [],
  };
  const crowd = new Crowd(world);
  const budgetClock = new ServerClock(world);
  const host = new BudgetHost(world, budgetClock, {
    signal: (workflowId, what) => crowd.signal(workflowId, what),
    granted: (workflowId) => {
      counts.grants += 1;
      const record = crowd.record(workflowId);
      if (record?.lane === 'interactive') {
        const tookMs = timeline.nowMs - record.startsAtMs;
        measures.longestInteractiveMs = Math.max(measures.longestInteractiveMs, tookMs);
      }
      if (record?.expectedGrantAtMs === undefined) return;
      measures.etaErrorsMs.push(timeline.nowMs - record.expectedGrantAtMs);
      delete record.expectedGrantAtMs;
    },
  });
  const service = new Service(world);
  const network = new Network(world, host, (workflowId) => void crowd.signal(workflowId, 'wake'));
  // The follow-ups' histories are on another host than the budget's.
  const clock = new ServerClock(world);
  const activities = new ActivityServer({ world, network, service }, clock);
  service.admit(crowd.records);
  crowd.plan({ world, clock, network, service, activities });

  if (world.calm) {
    const isAlive = (workflowId: string) => crowd.record(workflowId)?.ending === undefined;
    const everyMs = sampleEveryMs(world.sizes);
    const sampler = new QueueSampler(measures, { everyMs, isAlive });
    const sample = (): void => {
      sampler.sample(host.budget, host.timeMs);
      if (crowd.records.some(({ ending }) => ending === undefined)) timeline.after(everyMs, sample);
    };
    timeline.at(500, sample);
  }
  timeline.run(world.calm?.endMs ?? END_MS);
  measures.asksInAnyHour = network.asksInAnyHour();
  measures.takenInLaterHours = service.takenEachHour().slice(1);

  const verdicts = check(world.sizes, service, crowd.records);
  // Nothing knows any more what a deleted budget let through. Only what its follow-ups tell can be accounted for.
  if (world.faults.rates.budgetDeleted > 0) verdicts.overBudget = 0;
  for (const { workflowId, ending } of crowd.records) if (!ending) world.note('STUCK', workflowId);
  return { seed, verdicts, counts, measures, events: timeline.happened, followUps: crowd.records.length };
}
