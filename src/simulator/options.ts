import { z } from 'zod';
import { describeIssues, parseInput } from '../contract/validation.js';
import { faultsSchema, retryAfterForms } from './fault-plan.js';
import { limiterKinds } from './limiter.js';

/** Default key of the simulator. Public, and worthless anywhere else. */
const DEMO_API_KEY = 'simulated-admin-key';

const atMost = (maximum: number) => z.int().min(0).max(maximum);
const duration = atMost(86_400_000);
const durationRange = z
  .strictObject({ minMs: duration, maxMs: duration })
  .refine(({ minMs, maxMs }) => minMs <= maxMs, 'minMs must not be above maxMs');
const weight = z.number().min(0);

/** Settings that are fixed at the start; the others can be changed while the simulator runs. */
const startShape = {
  /** Address to listen on. @default '127.0.0.1' */
  host: z.string().min(1).default('127.0.0.1'),
  /** 0 takes any free port. @default 0 */
  port: z.int().min(0).max(65_535).default(0),
  /** Seed of all randomness. @default 1 */
  seed: z.int().min(0).max(0xffff_ffff).default(1),
  /** Each ledger entry is appended to this file as one line of JSON, and synced to disk, before its answer is sent. */
  ledgerFile: z.string().min(1).optional(),
};

const liveShape = {
  /** Key that requests must carry. @default DEMO_API_KEY */
  apiKey: z.string().min(1).default(DEMO_API_KEY),
  /** Keys of single projects, instead of `apiKey`. */
  apiKeys: z.record(z.string(), z.string().min(1)).default({}),
  /** Limit of messages per project. @default sliding, 100 per hour */
  limiter: z
    .strictObject({
      kind: z.enum(limiterKinds),
      limit: z.int().min(1).default(100),
      windowMs: z.int().min(1).default(3_600_000),
      /** Capacity of the token bucket. @default limit */
      burst: z.int().min(1).optional(),
    })
    .default({ kind: 'sliding', limit: 100, windowMs: 3_600_000 }),
  /**
   * Whether a message counts when it has arrived, or at a random instant between then and its answer. @default
   * 'arrival'
   */
  countAt: z.enum(['arrival', 'random']).default('arrival'),
  /** Other clients that use the same limit: mean share of it, 0 to 1. @default 0 */
  outsider: z.strictObject({ share: z.number().min(0).max(1) }).default({ share: 0 }),
  /** Form of the Retry-After header on a 429. @default 'none' */
  retryAfter: z.enum(retryAfterForms).default('none'),
  /** Retry-After of a 429 that is a fault. @default 1_000 */
  faultRetryAfterMs: duration.default(1_000),
  /** How long after a message reads still show the job as before. @default 0 */
  staleWindowMs: duration.default(0),
  /** How long the agent works on a message. @default 2 s to 6 s */
  turn: durationRange.default({ minMs: 2_000, maxMs: 6_000 }),
  /** Wait before every answer. @default 0 */
  latency: durationRange.default({ minMs: 0, maxMs: 0 }),
  /** Weights of how a turn ends. @default always completed */
  outcomes: z
    .strictObject({ completed: weight.default(0), failed: weight.default(0), archived: weight.default(0) })
    .refine(({ completed, failed, archived }) => completed + failed + archived > 0, 'one weight must be above zero')
    .default({ completed: 1, failed: 0, archived: 0 }),
  /** Pull request of a turn that ends `completed` or `archived`. @default 'new' */
  prLinkAfterTurn: z.enum(['new', 'same', 'none']).default('new'),
  /** What `prLink` is while the agent works. @default 'null' */
  prLinkWhileActive: z.enum(['null', 'kept']).default('null'),
  /** Whether a job that was created without a `prLink` has one before its first message. @default true */
  initialPrLink: z.boolean().default(true),
  /** Whether jobs are created when first requested; the id decides how they behave. @default false */
  autoCreate: z.boolean().default(false),
  /** Whether the answer to a message has the field `status`. @default false, as in the interface's sample */
  statusInPostAnswer: z.boolean().default(false),
  /** Random faults, as probabilities by method and kind. @default none */
  faults: faultsSchema.default({ get: {}, post: {} }),
  /** How long the fault `slowBody` drips. @default 20_000 */
  slowBodyMs: duration.default(20_000),
  /** Size of the fault `hugeBody`. @default 50 MiB */
  hugeBodyBytes: z
    .int()
    .min(1_024)
    .default(50 * 1_048_576),
  /** Target of the fault `redirect`. Default: a path of the simulator that counts its visits. */
  redirectLocation: z.string().min(1).optional(),
  /** Echoes the request's Authorization header in all answers, or in those with an error. @default false */
  echoAuthorization: z.union([z.boolean(), z.literal('errors')]).default(false),
  /** Resets every connection to the service at once; the control interface keeps working. @default false */
  down: z.boolean().default(false),
  /** Idle time after which a connection is closed, up to 1 s later. @default 5_000 */
  keepAliveTimeoutMs: duration.default(5_000),
  /** Whether the control interface under `/_simulator/` is served. @default true */
  controlApi: z.boolean().default(true),
};

/** Everything that `startSimulator` takes. Takes {@link SimulatorOptions}, gives {@link SimulatorSettings}. */
export const simulatorOptionsSchema = z.strictObject({ ...startShape, ...liveShape });

/** Options of the simulated service; every one has a default. Durations are whole milliseconds. */
export type SimulatorOptions = z.input<typeof simulatorOptionsSchema>;
/** The options with every default filled in. */
export type SimulatorSettings = z.output<typeof simulatorOptionsSchema>;
/** Options that can be changed while the simulator runs. */
export type SimulatorUpdate = Omit<SimulatorOptions, keyof typeof startShape>;

/** The current options, and the only way to change them. */
export class LiveSettings {
  #options: SimulatorOptions;
  #settings: SimulatorSettings;

  constructor(options: SimulatorOptions) {
    this.#settings = parseOrThrow(simulatorOptionsSchema, options, 'simulator options');
    this.#options = options;
  }

  get current(): SimulatorSettings {
    return this.#settings;
  }

  /**
   * Replaces the given options, each as a whole (`faults` too), and keeps the others.
   *
   * @throws naming each bad field; then nothing has changed
   */
  update(patch: SimulatorUpdate): void {
    const fixed = Object.keys(patch).filter((key) => key in startShape);
    if (fixed.length > 0) throw new Error(`simulator options: ${fixed.join(', ')} can only be set at the start`);
    const options = { ...this.#options, ...patch };
    this.#settings = parseOrThrow(simulatorOptionsSchema, options, 'simulator options');
    this.#options = options;
  }
}

/** Parses, or throws an error that names every bad field. */
export function parseOrThrow<T>(schema: z.ZodType<T>, input: unknown, what: string): T {
  const parsed = parseInput(schema, input);
  if (!parsed.ok) throw new Error(`${what}: ${describeIssues(parsed.issues)}`);
  return parsed.value;
}
