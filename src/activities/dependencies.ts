import type { AgentJobsClient } from '../agent-jobs/index.js';
import type { ServerClock } from '../temporal/server-clock.js';
import type { Budgets } from './budgets.js';

/** Dependencies of the activities. All durations are in milliseconds. */
export interface ActivityDependencies {
  agentJobs: Pick<AgentJobsClient, 'getJob' | 'sendMessage'>;
  budgets: Budgets;
  /** Total deadline of one POST. */
  sendTimeoutMs: number;
  /** Time from its grant within which a send ends or never starts: see {@link SendRequest}. */
  leaseMs: number;
  /** How long after the lease bytes may still arrive at the service. */
  drainMs: number;
  /** Upper bound of every budget's limit. */
  maxLimit: number;
  /** Most watches that sleep in this process. The others wait on timers of the server. */
  maxWatches: number;
  /** Aborted when the process is about to end: sleeping watches go back to the server. */
  ending: AbortSignal;
  /** Whether links to pull requests are kept out of search attributes. */
  linksArePrivate: boolean;
  /** Compares the wall clock with the server's. */
  serverClock: ServerClock;
  /** The wall clock, which can be set, and a monotonic clock. @default those of the process */
  clocks?: { wallMs: () => number; stopwatchMs: () => number };
}

export const processClocks = { wallMs: () => Date.now(), stopwatchMs: () => performance.now() };
