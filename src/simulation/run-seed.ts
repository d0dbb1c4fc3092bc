import { ActivityServer } from './activity.js';
import type { Breakage } from './breakages.js';
import { check, type Verdicts } from './checker.js';
import { Crowd } from './crowd.js';
import type { Profile } from './faults.js';
import { GateHost } from './gate-host.js';
import { SAMPLE_MS, sampleSlots, type Measures } from './measures.js';
import { Network } from './network.js';
import { Service } from './service.js';
import { END_MS, QUEUE_END_MS } from './sizes.js';
import { ServerClock, World, type Counts, type Trace } from './world.js';

/** What to simulate. */
export interface SeedOptions {
  seed: number;
  /** Default: `chaos`. */
  profile?: Profile;
  /** Rules taken out. Default: none. */
  broken?: ReadonlySet<Breakage>;
  /** Takes every step, one line each. */
  trace?: Trace;
}

/** What one seed came to. */
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
  const measures: Measures = { idleMs: 0, slotTimeMs: 0, etaErrorsMs: [] };
  const crowd = new Crowd(world);
  const gateClock = new ServerClock(world);
  const gate = new GateHost(world, gateClock, {
    signal: (workflowId, what) => crowd.signal(workflowId, what),
    granted: (workflowId) => {
      counts.grants += 1;
      const record = crowd.record(workflowId);
      if (record?.expectedGrantAtMs === undefined) return;
      measures.etaErrorsMs.push(timeline.nowMs - record.expectedGrantAtMs);
      delete record.expectedGrantAtMs;
    },
  });
  const service = new Service(world);
  const network = new Network(world, gate);
  // The follow-ups' histories lie on another host than the gate's.
  const clock = new ServerClock(world);
  const activities = new ActivityServer({ world, network, service }, clock);
  crowd.plan({ world, clock, network, service, activities });

  const endMs = profile === 'backlog' || profile === 'dead' ? QUEUE_END_MS : END_MS;
  if (!world.chaotic) {
    const sample = (): void => {
      const isAlive = (workflowId: string) => crowd.record(workflowId)?.ending === undefined;
      sampleSlots(measures, { budget: gate.budget, timeMs: gate.timeMs, isAlive });
      if (crowd.records.some(({ ending }) => ending === undefined)) timeline.after(SAMPLE_MS, sample);
    };
    timeline.at(500, sample);
  }
  timeline.run(endMs);

  const verdicts = check(world.limit, service.ledger, crowd.records);
  for (const { workflowId, ending } of crowd.records) if (!ending) world.note('STUCK', workflowId);
  return { seed, verdicts, counts, measures, events: timeline.happened, followUps: crowd.records.length };
}
