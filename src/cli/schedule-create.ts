import { Readable } from 'node:stream';
import { parseCreateScheduleInput } from '../client/index.js';
import { readBatchFile } from './batch-file.js';
import type { Cli, CliIo } from './cli.js';
import { UsageError } from './errors.js';
import { duration, given, number } from './follow-up-options.js';
import { describeScheduleText } from './schedule-text.js';
import { withTemporal } from './temporal-session.js';
import { openSource, readBytes } from './text-source.js';

/** A schedule's batch has at most 256 KiB of JSON; the file may have spaces and escapes besides. */
const MAX_FILE_BYTES = 4 * 1_048_576;

interface CreateOptions {
  cron?: string;
  every?: string;
  offset?: string;
  timeZone?: string;
  overlap?: string;
  catchUpWindow?: string;
  jitter?: string;
  startAt?: string;
  endAt?: string;
  limit?: string;
  note?: string;
  paused?: boolean;
  maxOpen?: string;
  allowDuplicates?: boolean;
}

/** `follow-up schedule create` */
export async function createSchedule(cli: Cli, name: string, file: string, options: CreateOptions): Promise<void> {
  const { cron, timeZone, overlap, startAt, endAt, note, paused, allowDuplicates = false } = options;
  const document = await readScheduleFile(cli.io, file, allowDuplicates);
  const maxOpen = number(options.maxOpen);
  const input = given({
    name,
    cron,
    every: duration(options.every),
    offset: duration(options.offset),
    timeZone,
    overlap,
    catchUpWindow: duration(options.catchUpWindow),
    jitter: duration(options.jitter),
    startAt,
    endAt,
    limit: number(options.limit),
    note,
    paused,
    input: { ...document, ...(maxOpen !== undefined && { maxOpen }) },
  });
  const checked = parseCreateScheduleInput(input);
  await withTemporal(cli, async ({ followUps }) => {
    const created = await (await followUps.schedules.create(checked)).describe();
    if (created.nextFirings.length === 0) cli.output.note('warning: there is no time at which this schedule fires');
    cli.output.data(created, `created\n${describeScheduleText(created, [])}`);
  });
}

/**
 * Reads the batch of a schedule: a JSON document with `items` or `jobIds`, or a follow-up a line, which are checked here.
 *
 * @param file `-` is stdin
 * @returns what is to be a `FollowUpBatchInput`
 * @throws BadLinesError naming every bad line; UsageError where it cannot be read, or is too large by far
 */
async function readScheduleFile(io: CliIo, file: string, allowDuplicates: boolean): Promise<Record<string, unknown>> {
  const source = await openSource('schedule', file, io);
  const { name } = source;
  const bytes = await readBytes('schedule', source, MAX_FILE_BYTES);
  if (!bytes) {
    throw new UsageError(`schedule: ${name} must be at most ${MAX_FILE_BYTES} bytes, of which 262144 may be its batch`);
  }
  const document = parseDocument(bytes);
  if (document) return document;
  const items = await readBatchFile({ name, stream: Readable.from([bytes]) }, { allowDuplicates });
  return { items: items.map(({ input }) => input) };
}

/** The whole file as a batch's input; `undefined` where it is something else, such as lines. */
function parseDocument(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8').replace(/^\ufeff/, ''));
    if (typeof value !== 'object' || value === null || !('items' in value || 'jobIds' in value)) return undefined;
    return { ...value };
  } catch {
    return undefined;
  }
}
