import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Client } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';

/** Recorded histories of every path, replayed against the code as it is now. */
const DIRECTORY = fileURLToPath(new URL('../histories/', import.meta.url));

/** The repository's directory, as it appears in stack traces. */
const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** A recorded history. */
export interface RecordedHistory {
  name: string;
  workflowId: string;
  history: unknown;
}

/** Writes the history of one workflow run, with `RECORD_HISTORIES=true`. */
export async function record(client: Client, name: string, workflowId: string, runId?: string): Promise<void> {
  if (process.env['RECORD_HISTORIES'] !== 'true') return;
  const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  mkdirSync(DIRECTORY, { recursive: true });
  const file = join(DIRECTORY, `${name.replace(/[^A-Za-z0-9]+/g, '-')}.json`);
  const recorded = { name, workflowId, history: JSON.parse(historyToJSON(history)) as unknown };
  writeFileSync(file, `${JSON.stringify(recorded).replaceAll(ROOT, '')}\n`);
}

/** Every recorded history. */
export function recordedHistories(): RecordedHistory[] {
  return readdirSync(DIRECTORY)
    .filter((file) => file.endsWith('.json'))
    .sort()
    .map((file) => JSON.parse(readFileSync(join(DIRECTORY, file), 'utf8')) as RecordedHistory);
}
