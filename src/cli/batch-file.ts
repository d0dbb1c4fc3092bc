import { createHash } from 'node:crypto';
import { z } from 'zod';
import { InvalidInputError, type StartBatchInput } from '../client/index.js';
import { batchItemsOf, parseUncheckedBatchInput } from '../contract/batch-input.js';
import {
  batchIdSchema,
  type FollowUpDefaults,
  type FollowUpInput,
  followUpInputSchema,
  type InputIssue,
  MAX_PROMPT_BYTES,
  parseInput,
} from '../contract/index.js';
import { type CliIo, UsageError } from './cli.js';
import { given, number, type SettingOptions, toSettings } from './command-options.js';
import {
  BadLines,
  type ByteSource,
  type Line,
  openSource,
  type PromptSource,
  readLines,
  readPrompt,
  unreadable,
} from './text-source.js';

/** The options of `follow-up batch run` that decide what is sent. */
export interface BatchInputOptions extends SettingOptions, PromptSource {
  id: string;
  maxOpen?: string;
  canary?: string;
  maxFailures?: string;
  allowDuplicates?: boolean;
  /** The short form: a file with one job id per line, for one project and one prompt. */
  jobs?: string;
  project?: string;
}

/** A checked batch. */
export type BatchOfFile = StartBatchInput & { items: FollowUpInput[] };

/**
 * Reads and checks all input of a batch.
 *
 * @throws InvalidInputError naming every bad option; BadLinesError naming every bad line; UsageError
 */
export async function readBatchInput(
  io: CliIo,
  file: string | undefined,
  options: BatchInputOptions,
): Promise<{ input: BatchOfFile; lines: number[] }> {
  const { jobs, project, prompt, promptFile, allowDuplicates = false } = options;
  if ((file === undefined) === (jobs === undefined)) {
    throw new UsageError('give one of FILE, with an input as JSON a line, and --jobs FILE, with a job id a line');
  }
  if (jobs === undefined && (project !== undefined || prompt !== undefined || promptFile !== undefined)) {
    throw new UsageError('--project and the prompt go with --jobs; in FILE each line has its own');
  }
  if (jobs === '-' && (prompt === '-' || promptFile === '-')) {
    throw new UsageError('stdin can be the list of jobs or the prompt, not both');
  }
  const common = jobs === undefined ? undefined : { projectId: project, prompt: await readPrompt(io, options) };
  const checked = checkSettings(options, common ?? {});
  const source = await openSource('batch', jobs ?? file ?? '-', io);
  const items = await readBatchFile(source, {
    allowDuplicates,
    defaults: checked.defaults,
    ...(common && { toInput: (line: string) => ({ ...common, jobId: line.trim() }) }),
  });
  const input = { ...checked, items: items.map((item) => item.input) };
  return { input, lines: items.map(({ line }) => line) };
}

/** Checks everything but the items. Fields that `common` lacks are in the items, and are checked there. */
function checkSettings(options: BatchInputOptions, common: Record<string, unknown>): Omit<BatchOfFile, 'items'> {
  const { id } = options;
  const settings = toSettings(options);
  const parsed = parseUncheckedBatchInput({
    items: [],
    open: true,
    maxOpen: number(options.maxOpen),
    canary: number(options.canary),
    maxFailures: number(options.maxFailures),
    ...(Object.keys(settings).length > 0 && { defaults: settings }),
  });
  // An item that is otherwise valid shows whether the settings fit together.
  const item = { projectId: 'project', jobId: 'job', prompt: 'prompt', ...common, ...settings };
  const checks = [parseInput(z.object({ id: batchIdSchema }), { id }), parseInput(followUpInputSchema, item), parsed];
  const issues = checks.flatMap((check) => (check.ok ? [] : check.issues));
  const own = issues.filter(({ field }) => !field.startsWith('defaults.'));
  if (!parsed.ok || own.length > 0) throw new InvalidInputError(own);
  const { maxOpen, canary, maxFailures, defaults } = parsed.value;
  // No option makes a `null`.
  return { id, ...given({ maxOpen, canary, maxFailures, defaults }) };
}

/** An item of a batch, and its line, from 1. */
interface BatchFileItem {
  line: number;
  input: FollowUpInput;
}

/** Settings of {@link readBatchFile}. */
export interface BatchFileOptions {
  /** Turns a line into an input, unchecked. Default: the line is the input as JSON. */
  toInput?: (line: string) => unknown;
  /** Default settings of every item; each item is checked with them. */
  defaults?: FollowUpDefaults | undefined;
  /** Whether two lines may have the same project, job and prompt. @default false */
  allowDuplicates?: boolean;
}

/** The longest prompt with each of its bytes escaped as `\u00XX`, and room for the other fields. */
const MAX_LINE_BYTES = 6 * MAX_PROMPT_BYTES + 65_536;

/**
 * Reads the items of a batch, one a line, as they arrive, and checks them all. Blank lines are skipped.
 *
 * @throws BadLinesError naming the bad lines with every bad field; UsageError if it cannot be read or has no items
 */
export async function readBatchFile(
  { name, stream }: ByteSource,
  { toInput = parseLine, defaults, allowDuplicates = false }: BatchFileOptions = {},
): Promise<BatchFileItem[]> {
  const items: BatchFileItem[] = [];
  const bad = new BadLines();
  const firsts = new Map<string, number>();
  let count = 0;
  for await (const line of readLines(reading(stream, name), MAX_LINE_BYTES)) {
    const { number: place } = line;
    count = place;
    if ('text' in line && line.text.trim() === '') continue;
    const read = readItem(line, toInput, defaults);
    if ('issues' in read) {
      bad.add(place, read.issues);
      continue;
    }
    const { input } = read;
    const digest = digestOf(input);
    const first = firsts.get(digest);
    if (first === undefined) firsts.set(digest, place);
    else if (!allowDuplicates) {
      const message = `same project, job and prompt as line ${first} (--allow-duplicates takes both)`;
      bad.add(place, [{ field: '', message }]);
    }
    if (bad.count === 0) items.push({ line: place, input });
  }
  bad.throwIfAny(name, count);
  if (items.length === 0) throw new UsageError(`${name} has no items: each line is one follow-up`);
  return items;
}

function readItem(
  line: Line,
  toInput: (text: string) => unknown,
  defaults: FollowUpDefaults | undefined,
): { input: FollowUpInput } | { issues: InputIssue[] } {
  if ('problem' in line) return { issues: [{ field: '', message: line.problem }] };
  let input: unknown;
  try {
    input = toInput(line.text);
  } catch (error) {
    return { issues: [{ field: '', message: error instanceof Error ? error.message : String(error) }] };
  }
  const parsed = parseInput(followUpInputSchema, batchItemsOf({ items: [input], defaults })[0]);
  return parsed.ok ? { input: input as FollowUpInput } : { issues: parsed.issues };
}

function parseLine(text: string): unknown {
  const hint = /^\s*(\[|\{\s*$)/.test(text) ? "; write one input per line, as jq -c '.[]' does" : '';
  try {
    const value: unknown = JSON.parse(text);
    if (!Array.isArray(value)) return value;
  } catch (error) {
    throw new Error(`not JSON: ${String(error)}${hint}`, { cause: error });
  }
  throw new Error(`a JSON list${hint}`);
}

async function* reading(stream: ByteSource['stream'], name: string): AsyncGenerator<unknown, void, undefined> {
  try {
    yield* stream;
  } catch (error) {
    throw unreadable('batch', name, error);
  }
}

function digestOf({ projectId, jobId, prompt }: FollowUpInput): string {
  return createHash('sha256').update(`${projectId}/${jobId}/${prompt}`).digest('base64');
}
