import { createWriteStream } from 'node:fs';
import { access, constants } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { BatchItem, Delivered } from '../contract/index.js';
import { UsageError } from './cli.js';
import { safeLine } from '../terminal-text.js';

/** A row of a report: one item. */
export interface BatchRow {
  /** Its position in the batch from 0, as in the key of its follow-up. */
  index: number;
  projectId: string;
  jobId: string;
  workflowId: string;
  /** The job's status; `error`: it ended without one; `pending`: it has not ended. */
  status: 'completed' | 'archived' | 'failed' | 'error' | 'pending';
  prLink: string | null;
  errorType: string | null;
  message: string | null;
  /** Whether the message reached the service; `null` until the item has ended. */
  delivered: Delivered | null;
}

const COLUMNS = [
  'index',
  'projectId',
  'jobId',
  'workflowId',
  'status',
  'prLink',
  'errorType',
  'message',
  'delivered',
] as const satisfies (keyof BatchRow)[];

/** The row of an item. */
export function toBatchRow({ index, projectId, jobId, workflowId, status, prLink, error }: BatchItem): BatchRow {
  return {
    index,
    projectId,
    jobId,
    workflowId,
    status: status ?? (error ? 'error' : 'pending'),
    prLink: prLink ?? null,
    errorType: error?.type ?? null,
    message: error?.message ?? null,
    delivered: error?.delivered ?? (status ? 'yes' : null),
  };
}

/**
 * Checks that a report can be written, before anything is sent.
 *
 * @throws UsageError
 */
export async function checkReportFile(file: string | undefined, json: boolean): Promise<void> {
  if (file === undefined) return;
  if (file === '-') {
    if (json) throw new UsageError('--csv - and --json both write to stdout: give --csv a file');
    return;
  }
  try {
    await access(file, constants.W_OK);
  } catch (error) {
    if (!isCode(error, 'ENOENT')) throw notWritable(file, error);
    await access(dirname(file), constants.W_OK).catch((reason: unknown) => {
      throw notWritable(file, reason);
    });
  }
}

/** Writes the rows as CSV with a header to a file, or to stdout for `-`. */
export async function writeCsvReport(
  output: { stdout: Writable; note(text: string): void },
  file: string,
  rows: Iterable<BatchRow>,
): Promise<void> {
  if (file === '-') {
    for (const record of csvRecords(rows)) output.stdout.write(record);
    return;
  }
  try {
    await pipeline(Readable.from(csvRecords(rows)), createWriteStream(file));
  } catch (error) {
    throw notWritable(file, error);
  }
  output.note(`report written to ${file}`);
}

function* csvRecords(rows: Iterable<BatchRow>): Generator<string> {
  yield csvRecord(COLUMNS);
  for (const row of rows) {
    yield csvRecord(
      COLUMNS.map((column) => {
        const value = row[column];
        // Links and messages come from the service.
        return typeof value === 'string' ? safeLine(value) : value;
      }),
    );
  }
}

function notWritable(file: string, error: unknown): UsageError {
  const reason = error instanceof Error && 'code' in error ? String(error.code) : String(error);
  return new UsageError(`csv: cannot write ${file}: ${reason}`);
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/**
 * One CSV record as in RFC 4180, with its CRLF. A text that a spreadsheet could take for a formula gets an apostrophe
 * in front, which makes it plain text: OWASP names `=`, `+`, `-`, `@`, their full-width forms, tab and line ends.
 */
export function csvRecord(cells: readonly (string | number | null | undefined)[]): string {
  return `${cells.map(toCell).join(',')}\r\n`;
}

function toCell(value: string | number | null | undefined): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\uff1d\uff0b\uff0d\uff20\t\r\n]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
