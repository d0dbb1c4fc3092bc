import type { Profile } from './profiles.js';
import type { SeedReport } from './run-seed.js';
import { verdicts } from './checker.js';
import type { Counts } from './world.js';

/** Most failing seeds that a report names per verdict. */
const EXAMPLES = 5;

type Verdict = keyof typeof verdicts;
const verdictNames: readonly Verdict[] = ['overBudget', 'doubled', 'stuck', 'lying', 'fooled', 'untold'];

/** Adds up the reports of many seeds. */
export class Report {
  seeds = 0;
  events = 0;
  followUps = 0;
  /** Per verdict: the number of seeds with at least one event, the number of events, and some of the seeds. */
  readonly failures: Record<Verdict, { seeds: number; events: number; examples: number[] }>;
  readonly counts: Partial<Counts> = {};
  readonly #etaErrorsMs: number[] = [];
  readonly #takenInLaterHours: number[] = [];
  #asksInAnyHour = 0;
  #longestStandMs = 0;
  #longestPassedOverMs = 0;
  #longestInteractiveMs = 0;
  #idleMs = 0;
  #slotTimeMs = 0;

  constructor(
    readonly profile: Profile,
    readonly broken: readonly string[],
  ) {
    const none = () => ({ seeds: 0, events: 0, examples: [] });
    this.failures = {
      overBudget: none(),
      doubled: none(),
      stuck: none(),
      lying: none(),
      fooled: none(),
      untold: none(),
    };
  }

  add({ seed, verdicts: found, counts, measures, events, followUps }: SeedReport): void {
    this.seeds += 1;
    this.events += events;
    this.followUps += followUps;
    for (const name of verdictNames) {
      if (found[name] === 0) continue;
      const failure = this.failures[name];
      failure.seeds += 1;
      failure.events += found[name];
      if (failure.examples.length < EXAMPLES) failure.examples.push(seed);
    }
    for (const name of Object.keys(counts) as (keyof Counts)[]) {
      this.counts[name] = (this.counts[name] ?? 0) + counts[name];
    }
    this.#etaErrorsMs.push(...measures.etaErrorsMs);
    this.#takenInLaterHours.push(...measures.takenInLaterHours);
    this.#asksInAnyHour = Math.max(this.#asksInAnyHour, measures.asksInAnyHour);
    this.#longestStandMs = Math.max(this.#longestStandMs, measures.longestStandMs);
    this.#longestPassedOverMs = Math.max(this.#longestPassedOverMs, measures.longestPassedOverMs);
    this.#longestInteractiveMs = Math.max(this.#longestInteractiveMs, measures.longestInteractiveMs);
    this.#idleMs += measures.idleMs;
    this.#slotTimeMs += measures.slotTimeMs;
  }

  /** Whether nothing is wrong with any seed. */
  get isRight(): boolean {
    return verdictNames.every((name) => this.failures[name].seeds === 0);
  }

  /** The report as plain JSON. */
  toJson(elapsedMs: number) {
    const { seeds, events, followUps, failures, counts, profile, broken } = this;
    const perGrant = (count: number | undefined) => round((count ?? 0) / Math.max(1, counts.grants ?? 0), 2);
    const errors = this.#etaErrorsMs.sort((a, b) => a - b);
    const at = (share: number) => Math.round(errors[Math.floor(share * (errors.length - 1))] ?? 0);
    return {
      profile,
      broken,
      seeds,
      failures,
      followUps,
      events,
      seedsPerSecond: round((seeds * 1_000) / Math.max(1, elapsedMs), 1),
      counts,
      perGrant: { asks: perGrant(counts.asks), wakes: perGrant(counts.wakes), timers: perGrant(counts.timers) },
      ...(this.#slotTimeMs > 0 && {
        idleShare: round(this.#idleMs / this.#slotTimeMs, 4),
        idleMsPerGrant: Math.round(perGrant(this.#idleMs)),
        asksInAnyHour: this.#asksInAnyHour,
        ...(this.#takenInLaterHours.length > 0 && {
          takenInLaterHours: { least: Math.min(...this.#takenInLaterHours), mean: mean(this.#takenInLaterHours) },
        }),
        longestStandMs: Math.round(this.#longestStandMs),
        longestPassedOverMs: Math.round(this.#longestPassedOverMs),
        longestInteractiveMs: Math.round(this.#longestInteractiveMs),
        etaErrorMs: { p5: at(0.05), p50: at(0.5), p95: at(0.95) },
      }),
    };
  }

  /** The report for people. */
  toText(elapsedMs: number): string {
    const json = this.toJson(elapsedMs);
    const lines = verdictNames.map((name) => {
      const { seeds, events, examples } = this.failures[name];
      const named = examples.length > 0 ? `  e.g. ${examples.join(', ')}` : '';
      return `${name.padEnd(11)}${String(seeds).padStart(7)} seeds${String(events).padStart(8)} ${verdicts[name]}${named}`;
    });
    const { asks, wakes, timers } = json.perGrant;
    const without = this.broken.length > 0 ? `, without ${this.broken.join(', ')}` : '';
    const { posts = 0, grants = 0, budgetRuns = 0, unknown = 0, falseUnknown = 0 } = this.counts;
    lines.unshift(`${this.seeds} seeds of ${this.profile}${without}: ${this.isRight ? 'all right' : 'WRONG'}`);
    lines.push(`${this.followUps} follow-ups, ${posts} POSTs, ${grants} grants, ${budgetRuns} times continued as new`);
    lines.push(`delivery in doubt ${unknown} times, ${falseUnknown} of them though no POST was begun`);
    lines.push(`per grant: ${asks} asks, ${wakes} wakes, ${timers} timers`);
    if (json.etaErrorMs) {
      const { p5, p50, p95 } = json.etaErrorMs;
      lines.push(`idle slots: ${((json.idleShare ?? 0) * 100).toFixed(2)} %, ${json.idleMsPerGrant} ms per grant`);
      lines.push(`first in line before a free slot: at most ${json.longestStandMs} ms`);
      lines.push(`interactive while slots of its lane are free: at most ${json.longestPassedOverMs} ms`);
      lines.push(`start of an interactive follow-up to its grant: at most ${json.longestInteractiveMs} ms`);
      lines.push(`asks in any hour: at most ${json.asksInAnyHour}`);
      if (json.takenInLaterHours) {
        const { least, mean } = json.takenInLaterHours;
        lines.push(`messages taken in an hour of backlog after the first: at least ${least}, ${mean} in the mean`);
      }
      lines.push(`first estimate: slot came ${p5} / ${p50} / ${p95} ms (p5 / p50 / p95) after it`);
    }
    lines.push(`${this.events} events, ${json.seedsPerSecond} seeds/s`);
    return lines.join('\n');
  }
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

function mean(values: readonly number[]): number {
  return round(values.reduce((sum, value) => sum + value, 0) / values.length, 1);
}
