import { randomUUID } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { z } from 'zod';
import { startCli } from '../cli/run-cli.js';
import { eventually } from '../support/eventually.js';

const PROMPT = 'prompt-that-no-span-holds';
const API_KEY = 'key-that-no-span-holds';

const attribute = z.object({ key: z.string(), value: z.looseObject({ stringValue: z.string().optional() }) });
const spanSchema = z.object({
  traceId: z.string(),
  spanId: z.string(),
  parentSpanId: z.string().optional(),
  name: z.string(),
});
type Span = z.infer<typeof spanSchema>;
/** The JSON that an OTLP exporter posts. */
const exportSchema = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes: z.array(attribute) }),
      scopeSpans: z.array(z.object({ spans: z.array(spanSchema) })),
    }),
  ),
});

/** Everything that was posted to the receiver. */
let posted = '';
const spans: Span[] = [];
const serviceNames = new Set<string | undefined>();
/** The requests to the agent job service. */
const requests: { method: string; headers: IncomingHttpHeaders }[] = [];
const servers: Server[] = [];

async function listen(
  answer: (method: string, body: string, headers: IncomingHttpHeaders) => unknown,
): Promise<string> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.once('end', () => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(answer(request.method ?? '', body, request.headers)));
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function receive(_method: string, body: string) {
  posted += body;
  for (const { resource, scopeSpans } of exportSchema.parse(JSON.parse(body)).resourceSpans) {
    serviceNames.add(resource.attributes.find(({ key }) => key === 'service.name')?.value.stringValue);
    spans.push(...scopeSpans.flatMap((scope) => scope.spans));
  }
  return {};
}

/** Serves a job that works for two reads after its message. */
function serve(method: string, _body: string, headers: IncomingHttpHeaders) {
  requests.push({ method, headers });
  const sentAt = requests.findIndex((request) => request.method === 'POST');
  const readsSince = sentAt === -1 ? Infinity : requests.length - 1 - sentAt;
  const status = readsSince <= 2 ? 'active' : 'completed';
  const prLink = sentAt === -1 ? null : 'https://git.example/pull/1';
  return { id: 'job-1', status, prLink, createdAt: '2026-01-01T00:00:00Z', archivedAt: null };
}

let workflowId: string;

beforeAll(async () => {
  const env = {
    TEMPORAL_ADDRESS: inject('temporalAddress'),
    FOLLOW_UP_TASK_QUEUE: `tracing-${randomUUID()}`,
    OTEL_EXPORTER_OTLP_ENDPOINT: await listen(receive),
    OTEL_SERVICE_NAME: 'our-follow-ups',
    OTEL_BSP_SCHEDULE_DELAY: '100',
  };
  const worker = startCli(['worker'], {
    env: {
      ...env,
      AGENT_JOBS_BASE_URL: await listen(serve),
      AGENT_JOBS_API_KEY: API_KEY,
      FOLLOW_UP_STATUS_ADDRESS: 'off',
      FOLLOW_UP_CORRELATION_HEADER: 'X-Correlation-Id',
    },
  });
  expect((await startCli(['setup'], { env }).ended).exitCode).toBe(0);
  const project = `traced-${randomUUID().slice(0, 8)}`;
  const sent = await startCli(['send', project, 'job-1', '--prompt', PROMPT, '--json'], { env }).ended;
  expect(sent.exitCode, sent.stderr + worker.stderr()).toBe(0);
  workflowId = z
    .object({ workflowId: z.string() })
    .parse(JSON.parse(sent.stdout.trim().split('\n').at(-1) ?? '')).workflowId;
  worker.kill('SIGTERM');
  const ended = await worker.ended;
  expect(ended.exitCode, ended.stderr).toBe(0);
});

afterAll(async () => {
  for (const server of servers) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

test('one tree of spans connects the command line with the activities', async () => {
  const start = await eventually('the span of the start', () =>
    spans.find(({ name }) => name === 'StartWorkflow:followUp'),
  );
  expect(start.parentSpanId).toBeFalsy();
  const tree = spans.filter(({ traceId }) => traceId === start.traceId);
  const names = new Set(tree.map(({ name }) => name));
  for (const name of ['RunWorkflow:followUp', 'RunActivity:sendMessage', 'RunActivity:watchJob']) {
    expect(names).toContain(name);
  }
  const known = new Set(tree.map(({ spanId }) => spanId));
  // A budget does not end, so the span of its run, which has these, is not exported.
  const ofBudget = /:(listRecentSends|budgetAnswer)$/;
  const orphans = tree.filter(
    ({ name, parentSpanId }) => parentSpanId && !known.has(parentSpanId) && !ofBudget.test(name),
  );
  expect(orphans).toEqual([]);
  expect([...serviceNames]).toEqual(['our-follow-ups']);
});

test('every request to the service belongs to the trace, and names the workflow and the version', () => {
  const [trace] = spans.filter(({ name }) => name === 'StartWorkflow:followUp').map(({ traceId }) => traceId);
  expect(requests.filter(({ method }) => method === 'POST')).toHaveLength(1);
  for (const { headers } of requests) {
    expect(headers['traceparent']).toContain(trace);
    expect(headers['x-correlation-id']).toBe(encodeURI(workflowId));
    expect(headers['user-agent']).toMatch(/^agent-follow-up\/\d+\.\d+\.\d+/);
  }
});

test('no span holds the prompt or the API key', () => {
  expect(posted).not.toBe('');
  expect(posted).not.toContain(PROMPT);
  expect(posted).not.toContain(API_KEY);
});
