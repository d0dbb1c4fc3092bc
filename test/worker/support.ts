import { randomUUID } from 'node:crypto';
import type { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import type { DestinationStream } from 'pino';
import { inject } from 'vitest';
import { loadConfig, type WorkerConfig } from '../../src/config/index.js';
import { eventually } from '../support/eventually.js';

/** A worker's configuration for the shared server, with its own task queue and the status server on a free port. */
export function testConfig(env: Record<string, string> = {}): WorkerConfig {
  return loadConfig({
    TEMPORAL_ADDRESS: inject('temporalAddress'),
    AGENT_JOBS_BASE_URL: 'http://127.0.0.1:9',
    AGENT_JOBS_API_KEY: 'key-for-tests-only',
    FOLLOW_UP_TASK_QUEUE: `worker-test-${randomUUID()}`,
    FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
    FOLLOW_UP_SEND_TIMEOUT: '10s',
    ...env,
  });
}

/** Registers a new namespace, without search attributes. */
export async function makeNamespace(connection: Connection): Promise<string> {
  const namespace = `ns-${randomUUID()}`;
  await connection.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: msToTs('1 day'),
  });
  await eventually('the namespace is known everywhere', async () => {
    await connection.workflowService.listWorkflowExecutions({ namespace, pageSize: 1 });
    return true;
  });
  return namespace;
}

/** Keeps what is logged. */
export function logMemory(): DestinationStream & { text(): string } {
  const lines: string[] = [];
  return { write: (line) => void lines.push(line), text: () => lines.join('') };
}
