import { z } from 'zod';
import { InvalidInputError } from '../client/index.js';
import {
  batchIdSchema,
  type FollowUpDefaults,
  followUpInputSchema,
  type InputIssue,
  parseInput,
} from '../contract/index.js';
import { parseUncheckedBatchInput } from '../contract/batch-input.js';
import { type BatchFileItem, readBatchFile } from './batch-file.js';
import type { CliIo } from './cli.js';
import { UsageError } from './errors.js';
import { given, number, type SettingOptions, toSettings } from './follow-up-options.js';
import { openSource, type PromptSource, readPrompt } from './text-source.js';

/** The options of `follow-up batch run` that say what is sent. */
export interface BatchInputOptions extends SettingOptions, PromptSource {
  id: string;
  maxOpen?: string;
  allowDuplicates?: boolean;
  /** The short form: a file with a job id a line, all of one project and with one prompt. */
  jobs?: string;
  project?: string;
}

/** A batch as it is to be started, checked whole. */
export interface CheckedBatch {
  batchId: string;
  maxOpen?: number;
  defaults?: FollowUpDefaults;
  items: BatchFileItem[];
}

/**
 * Reads and checks everything that a batch is started with.
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

/** All but the items. What `common` has is of every item; what it lacks is in the items, and checked there. */
function checkSettings(
  id: string,
  { maxOpen, defaults }: { maxOpen: unknown; defaults: Record<string, unknown> },
  common: Record<string, unknown>,
): Omit<CheckedBatch, 'items'> {
  const parsedId = parseInput(z.object({ id: batchIdSchema }), { id });
  // An item that is good but for what is checked here: it shows what the settings do together.
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
    ...(typeof value.maxOpen === 'number' && { maxOpen: value.maxOpen }),
    ...(value.defaults && { defaults: value.defaults }),
  };
}

function hasFields(value: Record<string, unknown>): boolean {
  return Object.keys(value).length > 0;
}
