import { createHash } from 'node:crypto';
import { z } from 'zod';
import { InvalidInputError } from '../client/index.js';
import { defined } from '../contract/defined.js';
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
import { batchItemsOf, parseUncheckedBatchInput } from '../contract/batch-input.js';

/** The options of `follow-up batch run` that decide what is sent. */
export interface BatchInputOptions extends SettingOptions, PromptSource {
  id: string;
  maxOpen?: string;
  allowDuplicates?: boolean;
  /** The short form: a file with one job id per line, for one project and one prompt. */
  jobs?: string;
  project?: string;
}

/** A checked batch, ready to be started. */
export interface CheckedBatch {
  batchId: string;
  maxOpen?: number;
  defaults?: FollowUpDefaults;
  items: BatchFileItem[];
}

/**
 * Reads and checks all input of a batch.
 *
 * @throws InvalidInputError naming every bad option; BadLinesError naming every bad line; UsageError
 */
export async function readBatchInput(
  io: CliIo,
  file: string | undefined,
  options: BatchInputOptions,
): Promise<CheckedBatch> {
  const { jobs, project, prompt, promptFile, allowDuplicates = false } = options;
  if ((file === undefined) === (jobs === undefined)) {
    throw new UsageError('give one of FILE, with an input as JSON a line, and --jobs FILE, with a job id a line');
  }
  const settings = { maxOpen: number(options.maxOpen), defaults: toSettings(options) };
  if (jobs === undefined) {
    if (project !== undefined || prompt !== undefined || promptFile !== undefined) {
      throw new UsageError('--project and the prompt go with --jobs; in FILE each line has its own');
    }
    const checked = checkSettings(options.id, settings, {});
    const source = await openSource('batch', file ?? '-', io);
    return { ...checked, items: await readBatchFile(source, { ...checked, allowDuplicates }) };
  }
  if (jobs === '-' && (prompt === '-' || promptFile === '-')) {
    throw new UsageError('stdin can be the list of jobs or the prompt, not both');
  }
  const common = given({ projectId: project, prompt: await readPrompt(io, options) });
  const checked = checkSettings(options.id, settings, { projectId: undefined, prompt: undefined, ...common });
  const source = await openSource('batch', jobs, io);
  const toInput = (line: string) => ({ ...common, jobId: line.trim() });
  return { ...checked, items: await readBatchFile(source, { ...checked, allowDuplicates, toInput }) };
}

/** Checks everything but the items. Fields missing from `common` are in the items, and checked there. */
function checkSettings(
  id: string,
  { maxOpen, defaults }: { maxOpen: unknown; defaults: Record<string, unknown> },
  common: Record<string, unknown>,
): Omit<CheckedBatch, 'items'> {
  const parsedId = parseInput(z.object({ id: batchIdSchema }), { id });
  // An otherwise valid item shows how the settings work together.
  const item = { projectId: 'project', jobId: 'job', prompt: 'prompt', ...common };
  const parsedItem = parseInput(followUpInputSchema, { ...item, ...defaults });
  const parsed = parseUncheckedBatchInput({
    items: [],
    open: true,
    ...given({ maxOpen }),
    ...(hasFields(defaults) && { defaults }),
  });
  const issues: InputIssue[] = [
    ...(parsedId.ok ? [] : parsedId.issues),
    ...(parsedItem.ok ? [] : parsedItem.issues),
    ...(parsed.ok ? [] : parsed.issues.filter(({ field }) => !field.startsWith('defaults.'))),
  ];
  if (!parsed.ok || issues.length > 0) throw new InvalidInputError(issues);
  const { value } = parsed;
  return {
    batchId: id,
    ...defined({
      maxOpen: typeof value.maxOpen === 'number' ? value.maxOpen : undefined,
      defaults: value.defaults ?? undefined,
    }),
  };
}

function hasFields(value: Record<string, unknown>): boolean {
  return Object.keys(value).length > 0;
}

/** An item of a batch and its line. */
interface BatchFileItem {
  line: number;
  input: FollowUpInput;
}

/** Settings of {@link readBatchFile}. */
export interface BatchFileOptions {
  /** Turns a line into an input, unchecked. Default: the line is the input as JSON. */
  toInput?: (line: string) => unknown;
  /** Default settings of every item; each item is checked with them. */
  defaults?: FollowUpDefaults;
  /** Whether two lines may have the same project, job and prompt. @default false */
  allowDuplicates?: boolean;
}

/** The longest prompt with each of its bytes escaped as `\u00XX`, and room for the other fields. */
const MAX_LINE_BYTES = 6 * MAX_PROMPT_BYTES + 65_536;

/**
 * Reads the items of a batch, one per line, as they arrive, and checks them all. Skips blank lines.
 *
 * @throws BadLinesError naming the bad lines with every bad field; UsageError if it cannot be read or has no items
 */
export async function readBatchFile(
  { name, stream }: ByteSource,
  { toInput = parseJson, defaults, allowDuplicates = false }: BatchFileOptions = {},
): Promise<BatchFileItem[]> {
  const items: BatchFileItem[] = [];
  const bad = new BadLines();
  const firstLines = new Map<string, number>();
  const isDuplicate = (line: number, input: FollowUpInput, issues: InputIssue[]) => {
    const digest = digestOf(input);
    const first = firstLines.get(digest);
    if (first === undefined) firstLines.set(digest, line);
    else if (!allowDuplicates) {
      issues.push({
        field: '',
        message: `same project, job and prompt as line ${first} (--allow-duplicates takes both)`,
      });
    }
    return issues.length > 0;
  };
  let lineCount = 0;
  for await (const line of readLines(reading(stream, name), MAX_LINE_BYTES)) {
    const { number } = line;
    lineCount = number;
    if ('text' in line && line.text.trim() === '') continue;
    const issues: InputIssue[] = [];
    const input = valueOf(line, toInput, issues);
    if (!isFollowUpInput(input, defaults, issues) || isDuplicate(number, input, issues)) bad.add(number, issues);
    else if (bad.count === 0) items.push({ line: number, input });
  }
  bad.throwIfAny(name, lineCount);
  if (items.length === 0) throw new UsageError(`${name} has no items: each line is one follow-up`);
  return items;
}

function valueOf(line: Line, toInput: (text: string) => unknown, issues: InputIssue[]): unknown {
  if ('problem' in line) {
    issues.push({ field: '', message: line.problem });
    return undefined;
  }
  try {
    return toInput(line.text);
  } catch (error) {
    issues.push({ field: '', message: `not JSON: ${error instanceof Error ? error.message : String(error)}` });
    return undefined;
  }
}

/** Adds every broken rule to the issues. With an issue already, there is nothing to check. */
function isFollowUpInput(
  value: unknown,
  defaults: FollowUpDefaults | undefined,
  issues: InputIssue[],
): value is FollowUpInput {
  if (issues.length > 0) return false;
  const parsed = parseInput(followUpInputSchema, batchItemsOf({ items: [value], defaults })[0]);
  if (!parsed.ok) issues.push(...parsed.issues);
  return parsed.ok;
}

function parseJson(line: string): unknown {
  return JSON.parse(line);
}

async function* reading(stream: ByteSource['stream'], name: string): AsyncGenerator {
  try {
    yield* stream;
  } catch (error) {
    throw unreadable('batch', name, error);
  }
}

function digestOf({ projectId, jobId, prompt }: FollowUpInput): string {
  return createHash('sha256').update(`${projectId}/${jobId}/${prompt}`).digest('base64');
}
