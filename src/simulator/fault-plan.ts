import { z } from 'zod';
import type { Random } from './random.js';

/**
 * What can go wrong with a request, and what happens to its message.
 * `applies`: the message is accepted and the agent works on it. `counts`: it is counted against the rate limit.
 */
const faultTraits = {
  /** 404 although the job exists. */
  http404: { applies: false, counts: true },
  http500: { applies: false, counts: true },
  http503: { applies: false, counts: true },
  /** A gateway's 503 for an accepted message. */
  http503AfterApply: { applies: true, counts: true },
  /** The connection is reset before the message is taken. */
  resetBefore: { applies: false, counts: true },
  /** The message is taken, then the connection is reset without an answer. */
  resetAfter: { applies: true, counts: true },
  /** The message is taken, status 200 and half of the body are sent, then the connection is reset. */
  resetMidBody: { applies: true, counts: true },
  /** No answer, ever, and the message is not taken. */
  hangBefore: { applies: false, counts: true },
  /** The message is taken, and no answer ever comes. */
  hangAfter: { applies: true, counts: true },
  /** Status 200 at once, the body in drips over `slowBodyMs`. */
  slowBody: { applies: true, counts: true },
  /** 429 below the limit. */
  limited: { applies: false, counts: false },
  /** 401 with a good key. */
  unauthorized: { applies: false, counts: false },
  /** 307 to `redirectLocation`. */
  redirect: { applies: false, counts: true },
  /** 200 with a sign-in page. */
  html200: { applies: true, counts: true },
  /** 200 with half a JSON document. */
  invalidJson: { applies: true, counts: true },
  /** 200 with a JSON document of `hugeBodyBytes`. */
  hugeBody: { applies: true, counts: true },
  /** A status that the interface does not name. */
  unknownStatus: { applies: true, counts: true },
  /** A `prLink` with a script URL and terminal escapes. */
  hostilePrLink: { applies: true, counts: true },
} as const;

export type FaultKind = keyof typeof faultTraits;
const faultKinds = Object.keys(faultTraits) as [FaultKind, ...FaultKind[]];

/** Forms of the Retry-After header on a 429; `mixed` picks one of the other three at random. */
export const retryAfterForms = ['none', 'seconds', 'date', 'mixed'] as const;
export type RetryAfterForm = (typeof retryAfterForms)[number];

const probability = z.number().min(0, 'must be from 0 to 1').max(1, 'must be from 0 to 1');

/** Probabilities by kind for one method. At most one fault strikes a request, so their sum must not exceed 1. */
const faultRatesSchema = z
  .partialRecord(z.enum(faultKinds), probability)
  .refine((rates) => sum(Object.values(rates)) <= 1 + 1e-9, 'the probabilities must not exceed 1 together');

/** Random faults, separately for each method. */
export const faultsSchema = z.strictObject({ get: faultRatesSchema.default({}), post: faultRatesSchema.default({}) });
type FaultSettings = z.output<typeof faultsSchema>;

/** A fault that certainly strikes the next matching requests. */
export const plannedFaultSchema = z.strictObject({
  method: z.enum(['GET', 'POST']),
  /** @default any project */
  projectId: z.string().optional(),
  /** @default any job */
  jobId: z.string().optional(),
  /** How many requests it strikes. @default 1 */
  times: z.int().min(1).default(1),
  /** `status` answers `statusCode` with `message`. */
  kind: z.enum([...faultKinds, 'status']),
  /** Only for `status`. @default 500 */
  statusCode: z.int().min(200).max(599).optional(),
  /** The `error` of the answer, for kinds that answer one. */
  message: z.string().optional(),
  /** Only for `status`: whether the message is taken. @default false */
  applied: z.boolean().optional(),
  /** Only for `limited`. Default: the simulator's `retryAfter`. */
  retryAfter: z.enum(retryAfterForms).optional(),
  /** Only for `limited`. Default: the simulator's `faultRetryAfterMs`. */
  retryAfterMs: z.int().min(0).optional(),
  /** Only for `slowBody`. Default: the simulator's `slowBodyMs`. */
  durationMs: z.int().min(0).optional(),
});
export type PlannedFault = z.input<typeof plannedFaultSchema>;
/** The fault that strikes one request. */
export type Fault = Pick<z.output<typeof plannedFaultSchema>, 'kind'> &
  Partial<Omit<z.output<typeof plannedFaultSchema>, 'kind' | 'method' | 'projectId' | 'jobId' | 'times'>>;

/** Whether a message struck by this fault is taken. */
export function faultApplies(fault: Fault): boolean {
  return fault.kind === 'status' ? (fault.applied ?? false) : faultTraits[fault.kind].applies;
}

/** Whether a message struck by this fault is counted against the rate limit. */
export function faultCounts(fault: Fault): boolean {
  return fault.kind === 'status' || faultTraits[fault.kind].counts;
}

/** Decides which fault strikes a request: a planned one, otherwise a random one or none. */
export class FaultPlan {
  #planned: z.output<typeof plannedFaultSchema>[] = [];

  add(fault: z.output<typeof plannedFaultSchema>): void {
    this.#planned.push({ ...fault });
  }

  clear(): void {
    this.#planned = [];
  }

  /** Always draws exactly one number from `random`. */
  next(
    request: { method: 'GET' | 'POST'; projectId: string; jobId: string },
    rates: FaultSettings,
    random: Random,
  ): Fault | undefined {
    let point = random.next();
    const planned = this.#planned.find(
      ({ method, projectId, jobId }) =>
        method === request.method &&
        (projectId ?? request.projectId) === request.projectId &&
        (jobId ?? request.jobId) === request.jobId,
    );
    if (planned) {
      planned.times--;
      if (planned.times === 0) this.#planned = this.#planned.filter((other) => other !== planned);
      return planned;
    }
    const ratesOfMethod = request.method === 'GET' ? rates.get : rates.post;
    for (const kind of faultKinds) {
      const rate = ratesOfMethod[kind] ?? 0;
      if (point < rate) return { kind };
      point -= rate;
    }
    return undefined;
  }
}

function sum(numbers: readonly (number | undefined)[]): number {
  return numbers.reduce<number>((total, number) => total + (number ?? 0), 0);
}
