import type { Lane } from '../src/contract/index.js';
import type { LimiterKind } from '../src/simulator/limiter.js';
import type { Chance } from './chance.js';
import { HOUR, SMALL, type Sizes } from './sizes.js';

/** Follow-ups of one lane that start one after another. */
export interface Arrivals {
  lane: Lane;
  count: number;
  /** Start of the first. Default: 0. */
  fromMs?: number;
  /** Time between two starts. */
  everyMs: number;
}

/** How the service behaves, apart from the messages of the simulated follow-ups. */
export interface ServiceHabits {
  /** Default: `sliding`. */
  limiter?: LimiterKind;
  /** Burst of a token bucket. */
  burst?: number;
  /** Whether a 429 says when to come again. */
  saysRetryAfter?: boolean;
  /** Messages per window that somebody else sends. */
  outsiders?: number;
}

/** A kind of world without faults. */
export interface Calm {
  sizes: Sizes;
  /** The end of the simulation. What is not over by then is stuck. */
  endMs: number;
  /** Slots that the batch lane leaves free. Default: 0. */
  reserve?: number;
  arrivals: Arrivals[];
  service?: ServiceHabits;
  /** When and for how long no worker runs the budget. */
  silences?: { atMs: number; forMs: number }[];
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** 120 follow-ups of one lane, 24 windows deep. */
const QUEUE: Calm = { sizes: SMALL, endMs: 50 * MINUTE_MS, arrivals: [{ lane: 'batch', count: 120, everyMs: 5 }] };

/** Kinds of worlds without faults. Each seed draws its details by chance. */
const calm = {
  backlog: () => QUEUE,
  dead: () => QUEUE,
  busy: () => QUEUE,
  herd: () => ({ ...QUEUE, arrivals: [{ lane: 'batch', count: 120, everyMs: 40 }] }),
  lanes: () => ({
    ...QUEUE,
    arrivals: [
      { lane: 'batch', count: 60, everyMs: 5 },
      { lane: 'interactive', count: 60, fromMs: 300, everyMs: 5 },
    ],
  }),
  reserve: (chance) => {
    const batch = [30, 75, 120, 149][chance.whole(0, 3)] ?? 120;
    return {
      sizes: HOUR,
      endMs: 12 * HOUR_MS,
      reserve: chance.whole(0, HOUR.limit / 2),
      arrivals: [
        { lane: 'batch', count: batch, everyMs: 100 },
        { lane: 'interactive', count: 150 - batch, fromMs: chance.between(0, 10 * MINUTE_MS), everyMs: 100 },
      ],
    };
  },
  crowd: () => ({
    sizes: HOUR,
    endMs: 20 * HOUR_MS,
    arrivals: [
      { lane: 'batch', count: 1_400, everyMs: 20 },
      { lane: 'interactive', count: 20, fromMs: 10 * MINUTE_MS, everyMs: 1_000 },
    ],
  }),
  burst1: (chance) => bucket(1, chance),
  burst10: (chance) => bucket(10, chance),
  burst100: (chance) => bucket(HOUR.limit, chance),
  outsider: (chance) => ({
    sizes: HOUR,
    endMs: 24 * HOUR_MS,
    arrivals: [{ lane: 'batch', count: 400, everyMs: 100 }],
    service: { outsiders: 0.3 * HOUR.limit, saysRetryAfter: chance.happens(0.5) },
  }),
  silent: (chance) => ({
    sizes: HOUR,
    endMs: 12 * HOUR_MS,
    arrivals: [
      { lane: 'batch', count: 120, everyMs: 100 },
      { lane: 'interactive', count: 30, everyMs: 400 },
    ],
    silences: [
      { atMs: chance.between(0, MINUTE_MS), forMs: MINUTE_MS },
      { atMs: chance.between(5 * MINUTE_MS, 80 * MINUTE_MS), forMs: HOUR_MS },
    ],
  }),
} satisfies Record<string, (chance: Chance) => Calm>;

/** A service that lets messages through evenly spread, except for a burst; 400 follow-ups. */
function bucket(burst: number, chance: Chance): Calm {
  return {
    sizes: HOUR,
    endMs: 24 * HOUR_MS,
    arrivals: [{ lane: 'batch', count: 400, everyMs: 100 }],
    service: { limiter: 'token-bucket', burst, saysRetryAfter: chance.happens(0.5) },
  };
}

/** Kinds of worlds. */
export const profiles = {
  chaos: 'all faults, 8 to 25 follow-ups',
  residual: 'chaos, and processes frozen between the last check and the first byte, which no rule can see',
  backlog: 'no faults, 120 follow-ups of one lane',
  dead: 'backlog, and 20 of the waiting follow-ups are terminated',
  busy: 'backlog, and the first 8 follow-ups are for one job whose turns take a minute',
  herd: 'backlog, and the service refuses the credentials for the first 30 s',
  lanes: 'backlog, half of it batch and half interactive',
  reserve: 'sizes of production, 150 follow-ups of both lanes, a reserve from 0 to half of the limit',
  crowd: 'sizes of production, 1,400 follow-ups of a batch, and 20 interactive ones that come 10 min later',
  burst1: 'sizes of production, 400 follow-ups, the service has a token bucket with a burst of 1',
  burst10: 'burst1 with a burst of 10',
  burst100: 'burst1 with a burst of 100, the limit',
  outsider: 'sizes of production, 400 follow-ups, and somebody else who sends 30 messages an hour',
  silent: 'sizes of production, 150 follow-ups, the budget does not answer for a minute and for an hour',
} as const;

/** Name of a {@link profiles | profile}. */
export type Profile = keyof typeof profiles;

/** Whether a text names a profile. */
export function isProfile(text: string): text is Profile {
  return Object.hasOwn(profiles, text);
}

/** The world of a profile without faults; `undefined` if the profile has faults. */
export function drawCalm(profile: Profile, chance: Chance): Calm | undefined {
  return profile === 'chaos' || profile === 'residual' ? undefined : calm[profile](chance);
}
