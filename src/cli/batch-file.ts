import { createHash } from 'node:crypto';
import { z } from 'zod';
import { InvalidInputError, type StartBatchInput } from '../client/index.js';
import { messageOf } from '../common/index.js';
import {
  batchIdSchema,
  describeIssues,
  type FollowUpInput,
  followUpInputSchema,
  type InputIssue,
  MAX_PROMPT_BYTES,
  type Parsed,
  parseInput,
} from '../contract/index.js';
import { decodeUtf8 } from '../node/text-file.js';
import { fillItem, parseUncheckedBatchInput } from '../protocol/index.js';
import { type CliIo, ExitCode, UsageError } from './cli.js';
import {
  type ByteSource,
  openSource,
  type PromptSource,
  readPrompt,
  toInputFields,
  toLimits,
} from './input-options.js';
import { counted } from './lines.js';

export interface BatchInputOptions extends PromptSource {
  id: string;
  allowDuplicates?: boolean;
  /** A file with one job id per line, for one project and one prompt. */
  jobs?: string;
  project?: string;
}

/**
 * Reads and checks all input of a batch.
 *
 * @throws InvalidInputError naming every invalid option; BadLinesError naming every invalid line; UsageError
 */
export async function readBatchInput(
  io: CliIo,
  file: string | undefined,
  options: BatchInputOptions,
): Promise<{ input: StartBatchInput & { items: FollowUpInput[] }; lines: number[] }> {
  const { jobs, project, prompt, promptFile, allowDuplicates } = options;
  if ((file === undefined) === (jobs === undefined)) {
    throw new UsageError('give either FILE (one JSON input per line) or --jobs FILE (one job id per line)');
  }
  if (jobs === undefined && (project !== undefined || prompt !== undefined || promptFile !== undefined)) {
    throw new UsageError('--project and the prompt are for --jobs; in FILE each line has its own');
  }
  if (jobs === '-' && (prompt === '-' || promptFile === '-')) {
    throw new UsageError('stdin can be the list of jobs or the prompt, not both');
  }
  const common = jobs === undefined ? undefined : { projectId: project, prompt: await readPrompt(io, options) };
  const settings = checkSettings(options, common ?? {});
  const toInput = common && ((line: string) => ({ ...common, jobId: line.trim() }));
  const items = await readBatchFile(openSource('batch', jobs ?? file ?? '-', io), { allowDuplicates, toInput });
  return { input: { ...settings, items: items.map(({ input }) => input) }, lines: items.map(({ line }) => line) };
}

/** Checks everything except the items. Fields that `common` lacks are checked with the items. */
function checkSettings(options: BatchInputOptions, common: object): Omit<StartBatchInput, 'items'> {
  const { id } = options;
  const limits = toLimits(options);
  // Here, --notify is for the batch itself.
  const { notify: _notify, ...defaults } = toInputFields(options);
  // A valid item shows whether the settings are consistent.
  const item = { projectId: 'project', jobId: 'job', prompt: 'prompt', ...common, ...defaults };
  const checks = [
    parseInput(z.object({ id: batchIdSchema }), { id }),
    parseInput(followUpInputSchema, item),
    parseUncheckedBatchInput({ items: [], open: true, ...limits }),
  ];
  const issues = checks.flatMap((check) => (check.ok ? [] : check.issues));
  if (issues.length > 0) throw new InvalidInputError(issues);
  return { id, ...limits, ...(Object.keys(defaults).length > 0 && { defaults }) };
}

export interface BatchFileOptions {
  /** Converts a line to an unchecked input. Default: the line is the input as JSON. */
  toInput?: ((line: string) => unknown) | undefined;
  /** Whether two lines may have the same project, job and prompt. @default false */
  allowDuplicates?: boolean | undefined;
}

/** The longest prompt with each byte escaped as `\u00XX`, and space for the other fields. */
const MAX_LINE_BYTES = 6 * MAX_PROMPT_BYTES + 65_536;
const MAX_SHOWN_LINES = 50;

/**
 * Reads and checks the items of a batch, one per line, as they arrive. Skips blank lines.
 *
 * @returns each item with its line, from 1
 * @throws BadLinesError naming every invalid line and field; UsageError if the file cannot be read or has no items
 */
export async function readBatchFile(
  { name, chunks }: ByteSource,
  { toInput = parseLine, allowDuplicates = false }: BatchFileOptions = {},
): Promise<{ line: number; input: FollowUpInput }[]> {
  const items: { line: number; input: FollowUpInput }[] = [];
  const shown: BadLine[] = [];
  const firsts = new Map<string, number>();
  let [line, badLineCount] = [0, 0];
  for await (const bytes of readLines(chunks, MAX_LINE_BYTES)) {
    line += 1;
    const item = readItem(bytes, toInput);
    if (!item) continue;
    const issues = item.ok ? [] : item.issues;
    if (item.ok) {
      const { projectId, jobId, prompt } = item.value;
      const digest = createHash('sha256').update(`${projectId}/${jobId}/${prompt}`).digest('base64');
      const first = firsts.get(digest);
      if (first === undefined) firsts.set(digest, line);
      else if (!allowDuplicates) {
        const message = `same project, job and prompt as line ${first} (--allow-duplicates accepts both)`;
        issues.push({ field: '', message });
      }
    }
    if (issues.length > 0 && ++badLineCount <= MAX_SHOWN_LINES) shown.push({ line, issues });
    if (item.ok && badLineCount === 0) items.push({ line, input: item.value });
  }
  if (badLineCount > 0) throw new BadLinesError(name, line, badLineCount, shown);
  if (items.length === 0) throw new UsageError(`${name} has no items: each line is one follow-up`);
  return items;
}

/** The item of a line, or its issues; `undefined` if the line is blank. */
function readItem(line: Buffer | undefined, toInput: (text: string) => unknown): Parsed<FollowUpInput> | undefined {
  let input: unknown;
  try {
    if (!line) throw new Error(`longer than ${MAX_LINE_BYTES} bytes`);
    const text = decodeUtf8(line);
    if (text.trim() === '') return undefined;
    input = toInput(text);
  } catch (error) {
    return { ok: false, issues: [{ field: '', message: messageOf(error) }] };
  }
  const parsed = parseInput(followUpInputSchema, fillItem(input, {}));
  return parsed.ok ? { ok: true, value: input as FollowUpInput } : parsed;
}

function parseLine(text: string): unknown {
  const isList = /^\s*(\[|\{\s*($|"items"\s*:))/.test(text);
  const hint = isList ? "; write one input per line, as jq -c '.[]' or '.items[]' does" : '';
  try {
    const value: unknown = JSON.parse(text);
    if (!isList) return value;
  } catch (error) {
    throw new Error(`not JSON: ${messageOf(error)}${hint}`, { cause: error });
  }
  throw new Error(`a JSON list${hint}`);
}

const LINE_FEED = 0x0a;

/**
 * The lines of a text as they arrive, without line feeds; `undefined` for a line of more than `maxBytes`. Never holds
 * more than one line and one chunk.
 */
async function* readLines(
  chunks: ByteSource['chunks'],
  maxBytes: number,
): AsyncGenerator<Buffer | undefined, void, undefined> {
  let parts: Buffer[] = [];
  let length = 0;
  const add = (part: Buffer) => {
    length += part.length;
    if (length <= maxBytes) parts.push(part);
  };
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk as Uint8Array);
    let from = 0;
    for (let to = bytes.indexOf(LINE_FEED); to >= 0; to = bytes.indexOf(LINE_FEED, from)) {
      add(bytes.subarray(from, to));
      yield length > maxBytes ? undefined : Buffer.concat(parts);
      [parts, length, from] = [[], 0, to + 1];
    }
    add(bytes.subarray(from));
  }
  if (length > 0) yield length > maxBytes ? undefined : Buffer.concat(parts);
}

/** An invalid line, from 1, and every broken rule. */
type BadLine = { line: number; issues: readonly InputIssue[] };

/** Thrown when lines of a file are invalid. Nothing was sent. */
export class BadLinesError extends Error {
  override readonly name = 'BadLinesError';
  readonly type = 'InvalidInput';
  readonly exitCode = ExitCode.usage;
  readonly delivered = 'no';
  readonly issues: readonly (InputIssue & { line: number })[];

  constructor(
    file: string,
    lineCount: number,
    readonly badLineCount: number,
    shown: readonly BadLine[],
  ) {
    const more = badLineCount - shown.length;
    super(
      [
        `${file}: ${badLineCount} of ${counted(lineCount, 'line')} invalid, so nothing was started`,
        ...shown.map(({ line, issues }) => `  line ${line}: ${describeIssues(issues)}`),
        ...(more > 0 ? [`  and ${counted(more, 'more invalid line')}`] : []),
      ].join('\n'),
    );
    this.issues = shown.flatMap(({ line, issues }) => issues.map((issue) => ({ line, ...issue })));
  }
}
