import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
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
  readBytes,
  readLines,
  readPrompt,
  unreadable,
} from './text-source.js';
import { batchItemsOf, parseUncheckedBatchInput } from '../contract/batch-input.js';
import { decodeUtf8, NotUtf8Error } from '../text-file.js';

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

/** An item of a batch. */
interface BatchFileItem {
  /** Its line, from 1; missing if the file is a JSON document. */
  line?: number;
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
 * Reads the items of a batch, and checks them all. The file has one input per line, which is read as it arrives, or it is
 * a JSON document: a list of inputs, or `{"items": […]}`. Blank lines are skipped.
 *
 * @throws BadLinesError naming the bad lines or items with every bad field; InvalidInputError if a document has other
 * fields; UsageError if it cannot be read or has no items
 */
export async function readBatchFile(
  { name, stream }: ByteSource,
  { toInput, defaults, allowDuplicates = false }: BatchFileOptions = {},
): Promise<BatchFileItem[]> {
  const chunks = reading(stream, name);
  const start = toInput ? { isDocument: false, chunks } : await peek(chunks);
  const unit = start.isDocument ? 'item' : 'line';
  const entries = start.isDocument
    ? await readDocument(name, start.chunks)
    : readEntries(start.chunks, toInput ?? ((text) => JSON.parse(text) as unknown));
  const items: BatchFileItem[] = [];
  const bad = new BadLines(unit);
  const firsts = new Map<string, number>();
  const isDuplicate = (number: number, input: FollowUpInput, issues: InputIssue[]) => {
    const digest = digestOf(input);
    const first = firsts.get(digest);
    if (first === undefined) firsts.set(digest, number);
    else if (!allowDuplicates) {
      const message = `same project, job and prompt as ${unit} ${first} (--allow-duplicates takes both)`;
      issues.push({ field: '', message });
    }
    return issues.length > 0;
  };
  let count = 0;
  for await (const { number, isBlank, input, issues } of entries) {
    count = number;
    if (isBlank) continue;
    if (!isFollowUpInput(input, defaults, issues) || isDuplicate(number, input, issues)) bad.add(number, issues);
    else if (bad.count === 0) items.push({ input, ...(unit === 'line' && { line: number }) });
  }
  bad.throwIfAny(name, count);
  if (items.length === 0)
    throw new UsageError(`${name} has no items${unit === 'line' ? ': each line is one follow-up' : ''}`);
  return items;
}

/** A line, or an item of a document, before it is checked. */
interface Entry {
  /** From 1. */
  number: number;
  isBlank?: boolean;
  input: unknown;
  issues: InputIssue[];
}

async function* readEntries(
  chunks: AsyncIterable<unknown>,
  toInput: (line: string) => unknown,
): AsyncGenerator<Entry, void, undefined> {
  for await (const line of readLines(chunks, MAX_LINE_BYTES)) {
    const issues: InputIssue[] = [];
    const isBlank = 'text' in line && line.text.trim() === '';
    const input = isBlank ? undefined : valueOf(line, toInput, issues);
    yield { number: line.number, isBlank, input, issues };
  }
}

/** No line with one input begins like this: a list, a brace alone in its line, or a field of a batch. */
const DOCUMENT_START = /^\s*(?:\[|\{[ \t]*\r?\n|\{\s*"(?:items|jobIds|maxOpen|defaults)"\s*:)/;
/** Enough bytes to match {@link DOCUMENT_START} if the file does not begin with much white space. */
const PEEK_BYTES = 4_096;
const MAX_DOCUMENT_BYTES = 128 * 1_024 * 1_024;

/** Finds out from the first bytes whether a file is a JSON document. The chunks that are returned are complete. */
async function peek(
  chunks: AsyncGenerator<unknown, void, undefined>,
): Promise<{ isDocument: boolean; chunks: AsyncIterable<unknown> }> {
  let head = Buffer.alloc(0);
  let isOver = false;
  while (!isOver && head.length < PEEK_BYTES && !/\S[^\n]*\n/.test(startOf(head))) {
    const { done, value } = await chunks.next();
    isOver = done === true;
    if (!isOver) head = Buffer.concat([head, Buffer.from(value as Uint8Array)]);
  }
  async function* all(): AsyncGenerator {
    yield head;
    if (!isOver) yield* chunks;
  }
  return { isDocument: DOCUMENT_START.test(startOf(head)), chunks: all() };
}

function startOf(head: Buffer): string {
  return head
    .subarray(0, PEEK_BYTES)
    .toString('utf8')
    .replace(/^\ufeff/, '');
}

async function readDocument(name: string, chunks: AsyncIterable<unknown>): Promise<Entry[]> {
  const bytes = await readBytes('batch', { name, stream: Readable.from(chunks) }, MAX_DOCUMENT_BYTES);
  if (!bytes) throw new UsageError(`batch: ${name} is larger than 128 MiB: write one input per line instead`);
  return itemsOfDocument(name, parseDocument(name, bytes)).map((input, index) => ({
    number: index + 1,
    input,
    issues: [],
  }));
}

function parseDocument(name: string, bytes: Buffer): unknown {
  try {
    return JSON.parse(decodeUtf8(bytes));
  } catch (error) {
    const reason = error instanceof NotUtf8Error ? error.message : `not JSON: ${String(error)}`;
    throw new UsageError(`batch: ${name} begins like a JSON document, but is ${reason}`);
  }
}

function itemsOfDocument(name: string, document: unknown): unknown[] {
  if (Array.isArray(document)) return document;
  const { items, ...others } = document as Record<string, unknown>;
  if (items === undefined && !('jobIds' in others)) return [document];
  const issues = Object.keys(others).map((field) => ({
    field,
    message: field === 'jobIds' ? 'give the ids with --jobs, one per line' : 'give it as an option, not in the file',
  }));
  if (items !== undefined && !Array.isArray(items)) issues.push({ field: 'items', message: 'must be a list' });
  if (issues.length > 0)
    throw new InvalidInputError(issues.map((issue) => ({ ...issue, field: `${name}: ${issue.field}` })));
  return items as unknown[];
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
