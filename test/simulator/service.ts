import { request } from 'undici';
import { afterEach } from 'vitest';
import { type Simulator, type SimulatorOptions, startSimulator } from '../../src/simulator/index.js';

/** An answer of the service. */
export interface Reply {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  json: Record<string, unknown>;
}

const started: Simulator[] = [];

afterEach(async () => {
  await Promise.all(started.splice(0).map((simulator) => simulator.close()));
});

/** Starts a simulator with automatic jobs and short turns. It ends with the test. */
export async function start(options: SimulatorOptions = {}): Promise<Simulator> {
  const simulator = await startSimulator({ autoCreate: true, turn: { minMs: 30, maxMs: 30 }, ...options });
  started.push(simulator);
  return simulator;
}

export function get(simulator: Simulator, jobId = 'job-1', projectId = 'p1', key = simulator.apiKey): Promise<Reply> {
  return call(simulator, 'GET', `/v2/agent/${projectId}/job/${jobId}`, { authorization: `Bearer ${key}` });
}

export function post(
  simulator: Simulator,
  { jobId = 'job-1', projectId = 'p1', prompt = 'go on', key = simulator.apiKey } = {},
): Promise<Reply> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  return call(simulator, 'POST', `/v2/agent/${projectId}/job/${jobId}/message`, headers, JSON.stringify({ prompt }));
}

/** Makes one request on its own connection, without redirects or retries. */
export async function call(
  simulator: Simulator,
  method: 'GET' | 'POST',
  path: string,
  headers: Record<string, string>,
  body?: string,
): Promise<Reply> {
  const response = await request(`${simulator.baseUrl}${path}`, { method, headers, body: body ?? null, reset: true });
  const json = parse(await response.body.text());
  return { status: response.statusCode, headers: response.headers, json };
}

function parse(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
