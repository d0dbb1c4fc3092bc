import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { createFollowUpService } from '../../examples/http-service/service.js';
import { FAST, type Stack, startStack } from '../support/stack.js';

const projectId = `http-${randomUUID().slice(0, 8)}`;
let stack: Stack;
let server: Server;
let base: string;
beforeAll(async () => {
  stack = await startStack({ address: inject('temporalAddress') });
  server = createFollowUpService(stack.followUps).listen(0, '127.0.0.1');
  await once(server, 'listening');
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server.close();
  await stack.stop();
});

async function ask(path: string, body?: unknown): Promise<{ status: number; body: unknown }> {
  const init =
    body === undefined ? {} : { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) };
  const response = await fetch(`${base}${path}`, init);
  return { status: response.status, body: await response.json() };
}
const pathOf = (id: string) => `/follow-ups/${encodeURIComponent(id)}`;

test('a follow-up is started once over HTTP, and its result can be fetched', async () => {
  stack.simulator.addJob({ projectId, jobId: 'job' });
  const input = { projectId, jobId: 'job', prompt: 'Add tests.', key: 'k', ...FAST };
  const id = `follow-up/${projectId}/job/k`;
  expect(await ask('/follow-ups', input)).toEqual({ status: 202, body: { id, key: 'k' } });
  expect(await ask('/follow-ups', input)).toEqual({ status: 200, body: { id, key: 'k' } });
  expect(await ask('/follow-ups', { ...input, prompt: 'Other.' })).toMatchObject({ status: 409 });
  const isEnded = async () => ((await ask(pathOf(id))).body as { ended: boolean }).ended;
  await expect.poll(isEnded).toBe(true);
  expect(await ask(pathOf(id))).toMatchObject({
    status: 200,
    body: { id, ended: true, result: { status: 'completed', prLink: expect.any(String) as string } },
  });
  expect(stack.simulator.ledger.map(({ status }) => status)).toEqual([200]);
});

test('a running follow-up shows its progress, and a failed one says why and whether it was delivered', async () => {
  stack.simulator.addJob({ projectId, jobId: 'gone', status: 'archived' });
  stack.simulator.addJob({ projectId, jobId: 'long', behaviour: { neverEnds: true } });
  for (const jobId of ['gone', 'long']) {
    await ask('/follow-ups', { projectId, jobId, prompt: 'Add tests.', key: 'k', ...FAST });
  }
  const progress = async () => (await ask(pathOf(`follow-up/${projectId}/long/k`))).body;
  await expect.poll(progress).toMatchObject({ ended: false, progress: { state: 'polling' } });
  const failed = async () => (await ask(pathOf(`follow-up/${projectId}/gone/k`))).body;
  await expect.poll(failed).toMatchObject({ ended: true, failure: { type: 'JobArchived', delivered: 'no' } });
});

test.each([
  ['/follow-ups', { projectId: 'http' }, 400],
  ['/follow-ups', 'no JSON', 400],
  ['/follow-ups/follow-up%2Fhttp%2Fjob%2Fnone', undefined, 404],
  ['/follow-ups/something', undefined, 400],
  ['/follow-ups/%', undefined, 400],
  ['/other', undefined, 404],
  ['//', undefined, 404],
  ['//[', undefined, 404],
])('%s with %j is answered with %i', async (path, body, status) => {
  const answer = await ask(path, body);
  expect(answer).toMatchObject({ status, body: { error: expect.any(String) as string } });
});
