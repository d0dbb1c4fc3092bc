import { readFile } from 'node:fs/promises';
import { z } from 'zod';

const entrySchema = z.object({
  receivedAtMs: z.number(),
  projectId: z.string(),
  jobId: z.string(),
  prompt: z.string().nullable(),
  accepted: z.boolean(),
  status: z.number(),
});

/** A message in the service's ledger on disk. */
export interface Arrival {
  receivedAtMs: number;
  projectId: string;
  /** The marker in the prompt, or the whole prompt if it has none. */
  marker: string;
  /** Whether the job accepted it. */
  accepted: boolean;
  /** HTTP status of the answer. */
  status: number;
}

/** The prompt of a follow-up. {@link readLedger} finds its marker again. */
export function promptOf(marker: string): string {
  return `chaos marker=${marker}`;
}

/** All entries of a ledger file. */
export async function readLedger(path: string): Promise<Arrival[]> {
  const text = await readFile(path, 'utf8');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const { receivedAtMs, projectId, prompt, accepted, status } = entrySchema.parse(JSON.parse(line));
      const marker = /marker=(\S+)/.exec(prompt ?? '')?.[1] ?? prompt ?? '';
      return { receivedAtMs, projectId, marker, accepted, status };
    });
}
