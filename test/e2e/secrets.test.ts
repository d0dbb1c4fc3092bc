import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { projectBudgetWorkflowId } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';

/** Every character that some encoding changes. */
const CANARY = 'canary/+="%&<key>\'\\4711';

/** The key as any of the encodings writes it that a service may echo it in. */
const encodings: Record<string, string> = {
  plain: CANARY,
  json: JSON.stringify(CANARY).slice(1, -1),
  json2: JSON.stringify(JSON.stringify(CANARY)).slice(3, -3),
  url: encodeURIComponent(CANARY),
  base64: Buffer.from(CANARY).toString('base64').replace(/=+$/, ''),
  base64url: Buffer.from(CANARY).toString('base64url'),
  bearer64: Buffer.from(`Bearer ${CANARY}`).toString('base64').replace(/=+$/, ''),
  hex: Buffer.from(CANARY).toString('hex'),
};

function found(text: string): string[] {
  return Object.entries(encodings).flatMap(([name, secret]) => (text.includes(secret) ? [name] : []));
}

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    env: { FOLLOW_UP_BUDGET_WINDOW: '60s', AGENT_JOBS_API_KEY: CANARY },
    simulator: { apiKey: CANARY, echoAuthorization: true, limiter: { kind: 'none' } },
  });
});
afterAll(() => stack.stop());

test('the API key is in no history, log, error, metric or answer, though the service echoes it everywhere', async () => {
  const projectId = `canary-${Date.now()}`;
  const { simulator } = stack;
  const send = (jobId: string) => stack.followUps.start({ projectId, jobId, prompt: 'hello', ...FAST });
  for (const jobId of ['plain', 'fail-1', 'archived-1', 'faulty', 'refused']) simulator.addJob({ projectId, jobId });
  simulator.failNext({ method: 'GET', projectId, jobId: 'faulty', kind: 'http500' });
  simulator.failNext({ method: 'GET', projectId, jobId: 'faulty', kind: 'unauthorized' });
  simulator.failNext({ method: 'POST', projectId, jobId: 'faulty', kind: 'http503AfterApply' });
  simulator.failNext({ method: 'POST', projectId, jobId: 'refused', kind: 'status', statusCode: 400, message: CANARY });
  const handles = await Promise.all(['plain', 'fail-1', 'archived-1', 'faulty', 'refused', 'missing'].map(send));
  const ends = await Promise.all(
    handles.map((handle) => handle.result().catch((error: unknown) => `${String(error)} ${JSON.stringify(error)}`)),
  );
  // The service did echo it: what comes back from a read shows a mask where the key stood.
  expect(JSON.stringify(ends[0])).toMatch(/masked|\*\*\*|\[/i);

  const places: Record<string, string> = { ends: JSON.stringify(ends), log: stack.log() };
  for (const workflowId of [...handles.map((handle) => handle.workflowId), projectBudgetWorkflowId(projectId)]) {
    const handle = stack.client.workflow.getHandle(workflowId);
    const history = await handle.fetchHistory();
    places[`history of ${workflowId}`] = historyToJSON(history);
    // Payloads are base64 in the JSON of a history: what they hold is looked at as well.
    places[`payloads of ${workflowId}`] = JSON.stringify(history, (_key, value: unknown) =>
      value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : value,
    );
    places[`description of ${workflowId}`] = JSON.stringify((await handle.describe()).raw);
  }
  places['metrics'] = await eventually('metrics are served', async () =>
    (await fetch(`${stack.statusUrl}/metrics`)).text(),
  );
  const hits = Object.entries(places).flatMap(([place, text]) => found(text).map((name) => `${name} in ${place}`));
  expect(hits).toEqual([]);
  expect(places['metrics']).toContain('temporal_');
  expect(simulator.ledger.length).toBeGreaterThan(0);
});
