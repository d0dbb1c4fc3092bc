import type { AgentJobsClient } from '../agent-jobs/index.js';
import { formatDuration } from '../contract/index.js';

/** What the worker's configuration allows. */
export interface SendBounds {
  /** Projects that are served. */
  projects: '*' | readonly string[];
  /** Most messages that this process sends for one project, whatever the project's budget grants. */
  ceiling: { limit: number; windowMs: number };
}

/**
 * Keeps the service's client within the worker's configuration, which nobody who can write to Temporal can change. A
 * project that is not served is neither read nor sent to. The ceiling counts requests that were started, in this
 * process only, by a clock that only goes forward: no step of a wall clock lets more through. An honest budget never reaches it, because it holds a slot for longer than the window. It is the last
 * line of defence against a budget whose state was forged.
 */
export function boundSends(client: AgentJobsClient, { projects, ceiling }: SendBounds): AgentJobsClient {
  const served = projects === '*' ? undefined : new Set(projects);
  /** By project, when each send of the last window began. */
  const begun = new Map<string, number[]>();
  let forgottenAtMs = performance.now();

  const refusal = (projectId: string): string | undefined =>
    served === undefined || served.has(projectId)
      ? undefined
      : `this worker does not serve project ${projectId} (FOLLOW_UP_PROJECTS)`;

  function isFull(projectId: string): boolean {
    const nowMs = performance.now();
    // Once a window, so that projects to which nothing is sent any more cost no memory.
    if (nowMs - forgottenAtMs >= ceiling.windowMs) {
      forgottenAtMs = nowMs;
      for (const project of begun.keys()) forget(project, nowMs);
    }
    return forget(projectId, nowMs) >= ceiling.limit;
  }

  /** Forgets a project's sends of earlier windows, and returns how many are left. */
  function forget(projectId: string, nowMs: number): number {
    const sends = begun.get(projectId)?.filter((atMs) => nowMs - atMs < ceiling.windowMs) ?? [];
    if (sends.length === 0) begun.delete(projectId);
    else begun.set(projectId, sends);
    return sends.length;
  }

  return {
    async getJob(job) {
      const message = refusal(job.projectId);
      return message === undefined ? client.getJob(job) : { kind: 'failed', reason: 'not-served', message };
    },
    async sendMessage(message) {
      const { projectId } = message;
      const issue = refusal(projectId);
      if (issue !== undefined) return { outcome: 'notSent', message: `nothing was sent: ${issue}` };
      if (isFull(projectId)) {
        const most = `${ceiling.limit} messages in ${formatDuration(ceiling.windowMs)}`;
        return {
          outcome: 'notSent',
          message: `nothing was sent: this worker has sent ${most} to project ${projectId}, the most that FOLLOW_UP_BUDGET_MAX_LIMIT allows, and its budget granted more`,
        };
      }
      return client.sendMessage({
        ...message,
        mayStart: () => {
          if (isFull(projectId) || !message.mayStart()) return false;
          begun.set(projectId, [...(begun.get(projectId) ?? []), performance.now()]);
          return true;
        },
      });
    },
    close: () => client.close(),
  };
}
