import { createHash } from 'node:crypto';
import {
  type FollowUpDefaults,
  type FollowUpInput,
  followUpInputSchema,
  type InputIssue,
  MAX_PROMPT_BYTES,
  parseInput,
} from '../contract/index.js';
import { batchItemsOf } from '../contract/batch-input.js';
import { UsageError } from './errors.js';
import { BadLines, type Line, readLines } from './read-lines.js';
import { type ByteSource, unreadable } from './text-source.js';

/** An item of a batch and the line it stands in. */
export interface BatchFileItem {
  line: number;
  input: FollowUpInput;
}

/** Settings of {@link readBatchFile}. */
export interface BatchFileOptions {
  /** The input that a line stands for, not checked yet. Without it a line is the input as JSON. */
  toInput?: (line: string) => unknown;
  /** Settings of every item that does not say otherwise; each item is checked with them. */
  defaults?: FollowUpDefaults;
  /** Whether two lines with the same project, job and prompt are meant so. @default false */
  allowDuplicates?: boolean;
}

/** The longest prompt with each of its bytes escaped as `\u00XX`, and room for the other fields. */
const MAX_LINE_BYTES = 6 * MAX_PROMPT_BYTES + 65_536;

/**
 * Reads the items of a batch, one a line, while they come in, and checks them all; blank lines are skipped.
 *
 * @throws BadLinesError naming the bad lines with every bad field; UsageError where it cannot be read or has no items
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

/** With an issue there is nothing to check; else every broken rule is added to the issues. */
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
