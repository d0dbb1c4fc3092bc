import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { hash64 } from '../common/index.js';
import type { WorkerConfig } from './index.js';

/** Short, because each event of a history has its worker's identity. */
const HASH_LENGTH = 8;

type Settings = Pick<WorkerConfig, 'agentJobs' | 'budget' | 'drainMs' | 'projects'>;

/**
 * The name of a worker among the pollers of its task queues: `{process id}@{host}/{random}/{address}.{bounds}`. The last
 * two are hashes of the settings that all workers of a task queue share.
 */
export function createWorkerIdentity(settings: Settings): string {
  const { address, bounds } = sharedSettings(settings);
  return `${process.pid}@${hostname()}/${randomUUID().slice(0, 8)}/${address}.${bounds}`;
}

/** Hashes of the service's address, and of the settings that bound sends. They cannot be read back. */
export function sharedSettings({ agentJobs: { baseUrl, sendTimeoutMs }, budget, drainMs, projects }: Settings) {
  return { address: short(baseUrl), bounds: short(JSON.stringify([sendTimeoutMs, drainMs, budget, projects])) };
}

const IDENTITY = /^(?<name>(?<pid>\d+)@(?<host>[^/]+)\/[^/]+)\/(?<address>[\w-]+)\.(?<bounds>[\w-]+)$/;

/** Reads the identity of a worker of this project; `undefined` if it is of another program. */
export function readWorkerIdentity(identity: string) {
  const { name = '', pid, host = '', address = '', bounds = '' } = IDENTITY.exec(identity)?.groups ?? {};
  return pid === undefined ? undefined : { name, pid: Number(pid), host, address, bounds };
}

function short(text: string): string {
  return hash64(text).slice(0, HASH_LENGTH);
}
