import { z } from 'zod';
import { type AgentJob, agentJobSchema, describeIssues, isTerminalStatus, parseInput } from '../contract/index.js';
import { plainText } from '../node/terminal-text.js';
import type { BodyKind } from '../protocol/index.js';

/** Longest text of the service, or of an error, in results and messages. */
const MAX_SERVICE_TEXT_LENGTH = 500;

export type Mask = (text: string) => string;

// A lone surrogate cannot be written as UTF-8.
const LONE_SURROGATE = /\p{Surrogate}/gu;

/** The text without terminal escapes, control characters (except tab and newline) and the API key. */
export function cleanString(text: string, mask: Mask): string {
  return mask(plainText(text).replace(LONE_SURROGATE, '\ufffd'));
}

/** Like {@link cleanString}, in one line of at most {@link MAX_SERVICE_TEXT_LENGTH} characters. */
export function cleanLine(text: string, mask: Mask): string {
  // Masked before it is cut, because half a key would not be recognised.
  return cutText(cleanString(text, mask).replace(/\s+/g, ' ').trim());
}

/** Cuts a text to a number of characters, including a final `…`. */
export function cutText(text: string, maxLength = MAX_SERVICE_TEXT_LENGTH): string {
  if (text.length <= maxLength) return text;
  return `${text.slice(0, maxLength - 1).replace(LONE_SURROGATE, '')}…`;
}

/** A job has two levels. The encoders of Temporal's payloads are recursive, and 128 KiB can hold 65,000 levels. */
const MAX_DEPTH = 64;

/**
 * Largest accepted job in JSON, which may be longer than its body: `1e20` is written out. A follow-up carries two jobs
 * and its prompt in one payload, and Temporal accepts 2 MiB.
 */
const MAX_JOB_BYTES = 131_072;

/** What the body of a 2xx is, and its job, or why that cannot be read. */
export type ReadBody = { kind: BodyKind } & ({ job: AgentJob } | { problem: string });

/** Reads a body, and cleans every string of its job, including field names. Does not check the job's `id`. */
export function readBody(body: string, mask: Mask): ReadBody {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    // The parser's message would quote the body.
    return body.trim() === ''
      ? { kind: 'none', problem: 'the body is empty' }
      : { kind: 'other', problem: 'the body is not JSON' };
  }
  return { kind: isJobLike(value) ? 'job' : 'other', ...toJob(value, mask) };
}

function toJob(value: unknown, mask: Mask): { job: AgentJob } | { problem: string } {
  if (isDeeperThan(value, MAX_DEPTH)) return { problem: `the body is nested deeper than ${MAX_DEPTH} levels` };
  const parsed = parseInput(agentJobSchema, cleanValue(value, mask));
  if (!parsed.ok) return { problem: `the body is not an agent job: ${cleanLine(describeIssues(parsed.issues), mask)}` };
  const job = parsed.value;
  if (Buffer.byteLength(JSON.stringify(job)) > MAX_JOB_BYTES) {
    return { problem: `the job is larger than ${MAX_JOB_BYTES} bytes` };
  }
  if (isOfJob(job)) return { job: job.prLink?.trim() === '' ? { ...job, prLink: null } : job };
  const { error } = job;
  const problem = isMissing(error)
    ? 'it has neither an id nor a status that jobs have'
    : cleanLine(typeof error === 'string' ? error : JSON.stringify(error), mask);
  return { problem: `the body is not an agent job: ${problem}` };
}

const isMissing = (value: unknown): boolean => value === undefined || value === null;

/**
 * Whether the fields that every job has are those of one. All of a job's fields are optional, so one of id and status is
 * enough, but not beside an error: many services answer 200 with an error, an id of the request and a status of their own.
 */
function isOfJob({ id, status, error }: { id?: unknown; status?: unknown; error?: unknown }): boolean {
  const hasStatus = typeof status === 'string' && (status === 'active' || isTerminalStatus(status));
  const hasId = typeof id === 'string';
  return isMissing(error) ? hasStatus || hasId : hasStatus && hasId;
}

/** Like {@link isOfJob}, but without an id, a status and an error, any other field of a job is enough. */
function isJobLike(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const fields = value as Record<string, unknown>;
  const isOther = !isMissing(fields['error']) || fields['status'] !== undefined;
  const isField = ([name, schema]: [string, z.ZodType]) =>
    !isMissing(fields[name]) && schema.safeParse(fields[name]).success;
  return isOfJob(fields) || (!isOther && Object.entries(agentJobSchema.shape).some(isField));
}

const errorBodySchema = z.object({ error: z.string() });

/** The text of an error body: its `error` field, or else the whole body. */
export function errorText(body: string, mask: Mask): string {
  let json: unknown;
  try {
    json = JSON.parse(body);
  } catch {
    return cleanLine(body, mask);
  }
  return cleanLine(errorBodySchema.safeParse(json).data?.error ?? body, mask);
}

/** Recurses at most `depth` levels. */
function isDeeperThan(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return depth < 0;
  return depth < 0 || Object.values(value).some((field) => isDeeperThan(field, depth - 1));
}

function cleanValue(value: unknown, mask: Mask): unknown {
  if (typeof value === 'string') return cleanString(value, mask);
  if (Array.isArray(value)) return value.map((item: unknown) => cleanValue(item, mask));
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).map(
    ([name, field]) => [cleanString(name, mask), cleanValue(field, mask)] as const,
  );
  return Object.fromEntries(fields.filter(([name]) => name !== '__proto__'));
}
