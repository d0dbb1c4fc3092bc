import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { addItemsUpdate, followUpBatchWorkflowId, sealUpdate } from '../../src/contract/index.js';
import { measureHistories, startBatch } from '../support/batch.js';
import { type Stack, startStack } from '../support/stack.js';

const TOTAL = 10_000;
/** About 220 KiB of JSON. */
const PIECE = 600;
let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
});
afterAll(() => stack.stop());

test('a batch of 10,000 items keeps histories below 10,000 events and payloads below 512 KiB, and every item has an outcome', async () => {
  const batchId = `long-${Date.now()}`;
  const items = Array.from({ length: TOTAL }, (_, index) => ({
    projectId: `${batchId}-${index % 20}`,
    jobId: `job-${index}-${'x'.repeat(60)}`,
    prompt: `message ${index} ${'y'.repeat(200)}`,
  }));
  const batch = await startBatch(stack, batchId, { items: [], open: true, maxOpen: 3 });
  for (let offset = 0; offset < TOTAL; offset += PIECE) {
    const piece = items.slice(offset, offset + PIECE);
    await batch.handle.executeUpdate(addItemsUpdate, { args: [piece, offset] });
  }
  const sealed = await batch.handle.executeUpdate<object, [number]>(sealUpdate.name, { args: [TOTAL] });
  expect(sealed).toEqual({ total: TOTAL });
  await batch.handle.cancel();
  const result = await batch.result();
  expect(result).toMatchObject({ total: TOTAL, cancelled: true, truncated: true, completed: 0, errors: TOTAL });
  expect(result.items).toHaveLength(500);

  const listed: string[] = [];
  for await (const item of stack.followUps.batch(batchId).list()) {
    expect(item.error?.delivered).toBe('no');
    listed.push(`${item.index} ${item.jobId}`);
  }
  expect(listed).toEqual(items.map(({ jobId }, index) => `${index} ${jobId}`));

  expect((await batch.status()).parts).toBeGreaterThanOrEqual(TOTAL / 500);
  const whole = await measureHistories(stack, followUpBatchWorkflowId({ batchId }));
  expect(whole.runs).toBeGreaterThan(1);
  const ids = [batch.handle.workflowId, ...(await stack.followUps.batch(batchId).parts())];
  for (const id of ids) {
    const { events, payloadBytes, failedTasks } = await measureHistories(stack, id);
    expect(failedTasks).toBe(0);
    expect(events).toBeLessThan(10_000);
    expect(payloadBytes).toBeLessThan(512 * 1_024);
  }
}, 600_000);
