import { onTestFinished, vi } from 'vitest';
import {
  type AgentJobsClient,
  type AgentJobsClientOptions,
  type ApiKeys,
  createAgentJobsClient,
  type SendMessageOutcome,
} from '../../../src/agent-jobs/index.js';
import { type Peer, type PeerConnection, type PeerScript, startPeer, tlsFile } from './peer.js';

export const API_KEY = 'adm_s3cr3t+/K3y=0123456789';
export const ADDRESS = { projectId: 'project-1', jobId: 'job-1' };
export const JOB = { id: ADDRESS.jobId, status: 'completed', prLink: 'https://git.example/pr/1' };

/** A peer that writes these bytes after each request, and ends the connection. */
export const writes = (bytes: string): PeerScript => ({ onRequest: ({ socket }) => socket.end(bytes) });
/** A peer that carries this out after each request. */
export const acts = (act: (connection: PeerConnection) => unknown): PeerScript => ({
  onRequest: (connection) => void act(connection),
});

/** A peer that is closed when the test ends. */
export async function usePeer(script?: PeerScript): Promise<Peer> {
  const peer = await startPeer(script);
  onTestFinished(() => peer.close());
  return peer;
}

/** A client that is closed when the test ends. It trusts the certificate authority of the tests. */
export function useClient(baseUrl: string, options: Partial<AgentJobsClientOptions> = {}): AgentJobsClient {
  const keys: ApiKeys = { forProject: () => Promise.resolve(API_KEY) };
  const timeouts = { getTimeoutMs: 5_000, sendTimeoutMs: 5_000 };
  const client = createAgentJobsClient({ baseUrl, keys, ...timeouts, ca: tlsFile('ca.pem'), ...options });
  onTestFinished(() => client.close());
  return client;
}

export const send = (client: AgentJobsClient, mayStart = () => true, prompt = 'Please add tests.') =>
  client.sendMessage({ ...ADDRESS, prompt, mayStart });

export const get = (client: AgentJobsClient) => client.getJob(ADDRESS);

/**
 * Sends a message whose deadlines pass as soon as it `isStuck`. The peer shares this process, so that nothing is under
 * way after some turns of the event loop.
 */
export async function sendUntilDeadline(
  client: AgentJobsClient,
  isStuck: (hasStarted: boolean) => boolean = (hasStarted) => hasStarted,
  prompt?: string,
): Promise<SendMessageOutcome> {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    let hasStarted = false;
    const result = send(client, () => (hasStarted = true), prompt);
    for (let turns = 0; turns < 200; turns += isStuck(hasStarted) ? 1 : 0) await new Promise(setImmediate);
    await vi.advanceTimersByTimeAsync(60_000);
    return await result;
  } finally {
    vi.useRealTimers();
  }
}
