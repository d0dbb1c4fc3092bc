import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Client } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';

/** Recorded histories of every path, replayed against the code as it is now. */
const DIRECTORY = fileURLToPath(new URL('../histories/', import.meta.url));

/** The repository's directory, as it appears in stack traces. */
const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Whether this run records histories (`RECORD_HISTORIES=true`). */
export const recording = process.env['RECORD_HISTORIES'] === 'true';

/** A recorded history. */
export interface RecordedHistory {
  name: string;
  workflowId: string;
  history: unknown;
}

/** Writes the history of one workflow run if this test run records histories. */
export async function record(client: Client, name: string, workflowId: string, runId?: string): Promise<void> {
  if (!recording) return;
  const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  mkdirSync(DIRECTORY, { recursive: true });
  const file = join(DIRECTORY, `${fileNameOf(name)}.json`);
  const recorded = { name, workflowId, history: JSON.parse(historyToJSON(history)) as unknown };
  writeFileSync(file, `${JSON.stringify(recorded).replaceAll(ROOT, '')}\n`);
}

/** A file name for `name`. A long name is shortened, and a hash keeps it unique. */
function fileNameOf(name: string): string {
  const whole = name.replace(/[^A-Za-z0-9]+/g, '-');
  return whole.length <= 100
    ? whole
    : `${whole.slice(0, 90)}-${createHash('sha256').update(name).digest('hex').slice(0, 8)}`;
}

/** Every recorded history. */
export function recordedHistories(): RecordedHistory[] {
  return readdirSync(DIRECTORY)
    .filter((file) => file.endsWith('.json'))
    .sort()
    .map((file) => JSON.parse(readFileSync(join(DIRECTORY, file), 'utf8')) as RecordedHistory);
}
