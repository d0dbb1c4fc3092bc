import { onTestFinished } from 'vitest';
import {
  createAgentJobsClient,
  type AgentJobsClient,
  type AgentJobsClientOptions,
  type ApiKeys,
  type JobAddress,
  type SendMessageRequest,
} from '../../../src/agent-jobs/index.js';
import { startPeer, tlsFile, type Peer, type PeerScript } from './peer.js';

export const API_KEY = 'adm_s3cr3t+/K3y=0123456789';
export const PROJECT_ID = 'project-1';
export const JOB_ID = 'job-1';
const ADDRESS: JobAddress = { projectId: PROJECT_ID, jobId: JOB_ID };
const KEYS: ApiKeys = { forProject: () => Promise.resolve(API_KEY) };
export const JOB = { id: JOB_ID, status: 'completed', prLink: 'https://git.example/pr/1' };

/** A peer that is closed when the test ends. */
export async function usePeer(script?: PeerScript): Promise<Peer> {
  const peer = await startPeer(script);
  onTestFinished(() => peer.close());
  return peer;
}

/** A client that is closed when the test ends. It trusts the certificate authority of the tests. */
export function useClient(baseUrl: string, options: Partial<AgentJobsClientOptions> = {}): AgentJobsClient {
  const client = createAgentJobsClient({
    baseUrl,
    keys: KEYS,
    getTimeoutMs: 5_000,
    sendTimeoutMs: 5_000,
    ca: tlsFile('ca.pem'),
    ...options,
  });
  onTestFinished(() => client.close());
  return client;
}

export const send = (client: AgentJobsClient, mayStart: SendMessageRequest['mayStart'] = () => true) =>
  client.sendMessage({ ...ADDRESS, prompt: 'Please add tests.', mayStart });

export const get = (client: AgentJobsClient) => client.getJob(ADDRESS);
