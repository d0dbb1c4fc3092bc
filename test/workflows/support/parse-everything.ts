import { z } from 'zod';
import * as contract from '../../../src/contract/index.js';
import * as protocol from '../../../src/contract/protocol.js';

const followUp = { projectId: 'p', jobId: 'j', prompt: 'go on', poll: { initialInterval: '1s' }, settleTime: '1m' };
const settings = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
const send = { workflowId: 'follow-up/p/j/k', runId: 'r', sendNumber: 1 };

/** Values that some schema accepts and the others refuse, and values that no schema accepts. */
const VALUES: unknown[] = [
  followUp,
  { ...followUp, jobId: '..', poll: { maxInterval: '0s', backoffCoefficient: 11 }, settleTime: 'soon', more: 1 },
  send,
  { ...send, lane: 'batch', messageTag: 't', mayHaveSent: false, startedAtMs: 1, leaseMs: 1, drainMs: 1, maxLimit: 1 },
  { ...send, kind: 'settle', outcome: 'sent', atMs: 1 },
  { ...send, kind: 'granted', grantedAtMs: 1, leaseMs: 1, overAtMs: 2 },
  { projectId: 'p', settings },
  { projectId: 'p', settings: { ...settings, reserve: -1 }, assumeFull: false },
  { limit: 5, window: '2h', reserve: 5 },
  { for: '1h', note: 'x'.repeat(201) },
  { id: 'j', status: 'completed', source: { repository: 'r', ref: null }, prLink: null, later: {} },
  ...[settings, {}, [], [{}], '1h', 'p', '..', '', 5, -1, null, undefined],
];

/** The result of every schema of the shared modules for every value, as plain JSON. */
export function parseEverything(): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries<unknown>({ ...contract, ...protocol }).flatMap(([name, schema]) =>
      schema instanceof z.ZodType ? [[name, VALUES.map((value) => contract.parseInput(schema, value))]] : [],
    ),
  );
}
