import { z } from 'zod';
import { describeIssues, parseInput } from '../contract/index.js';

/** Default key of the simulator. Public, and worthless elsewhere. */
const DEMO_API_KEY = 'simulated-admin-key';

const retryAfterForms = ['none', 'seconds', 'date'] as const;
export type RetryAfterForm = (typeof retryAfterForms)[number];

const whole = (min: number, max: number, rule: string) => z.int(rule).min(min, rule).max(max, rule);
const durationMs = z.int().min(0).max(86_400_000);
const durationRange = z
  .strictObject({ minMs: durationMs, maxMs: durationMs })
  .refine(({ minMs, maxMs }) => minMs <= maxMs, 'minMs must not be above maxMs');

/** Durations are whole milliseconds. */
export const simulatorOptionsSchema = z.strictObject({
  /** Address to listen on. @default '127.0.0.1' */
  host: z.string().min(1).default('127.0.0.1'),
  /** 0 takes any free port. @default 0 */
  port: whole(0, 65_535, 'must be a port from 0 to 65535').default(0),
  /** Seed of all randomness. @default 1 */
  seed: whole(0, 0xffff_ffff, 'must be a whole number from 0 to 4294967295').default(1),
  /** Each ledger entry is appended to this file as a line of JSON before its response is sent. */
  ledgerFile: z.string().min(1).optional(),
  /** The accepted key. @default DEMO_API_KEY */
  apiKey: z.string().min(1).default(DEMO_API_KEY),
  /** Keys of single projects, instead of `apiKey`. */
  apiKeys: z.record(z.string(), z.string().min(1)).default({}),
  /** Limit of messages per project in a rolling window; `null`: none. @default 100 per hour */
  limiter: z
    .strictObject({
      limit: whole(1, Infinity, 'must be a whole number of at least 1').default(100),
      windowMs: z.int().min(1).default(3_600_000),
    })
    .nullable()
    .default({ limit: 100, windowMs: 3_600_000 }),
  /** Form of the Retry-After header on a 429 of the limiter. @default 'none' */
  retryAfter: z.enum(retryAfterForms).default('none'),
  /** How long after a message reads still show the previous state. @default 0 */
  staleWindowMs: durationMs.default(0),
  /** How long the agent works on a message. @default 2 s to 6 s */
  turn: durationRange.default({ minMs: 2_000, maxMs: 6_000 }),
  /** Wait before every response. @default 0 */
  latency: durationRange.default({ minMs: 0, maxMs: 0 }),
  /** Whether jobs are created when first requested; the id decides how they behave. @default false */
  autoCreate: z.boolean().default(false),
  /** Whether the response to a message has the field `status`. @default false, as in the interface's sample */
  statusInPostResponse: z.boolean().default(false),
});

export type SimulatorOptions = z.input<typeof simulatorOptionsSchema>;
export type SimulatorSettings = z.output<typeof simulatorOptionsSchema>;
/** Options that can be changed while the simulator runs. */
export type SimulatorUpdate = Pick<SimulatorOptions, 'apiKey' | 'apiKeys' | 'latency' | 'staleWindowMs'>;

/** @throws naming every invalid field */
export function withDefaults(options: SimulatorOptions): SimulatorSettings {
  const parsed = parseInput(simulatorOptionsSchema, options);
  if (!parsed.ok) throw new Error(`simulator options: ${describeIssues(parsed.issues)}`);
  return parsed.value;
}
