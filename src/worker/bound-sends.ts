import type { AgentJobsClient } from '../agent-jobs/index.js';
import { formatDuration } from '../contract/index.js';

export interface SendBounds {
  projects: '*' | readonly string[];
  /** Most messages of a project that this process sends, whatever the project's budget grants. */
  ceiling: { limit: number; windowMs: number };
}

/**
 * Bounds the service's client by the worker's configuration, which writers to Temporal cannot change. It neither reads
 * nor sends for a project that is not served. The ceiling counts started requests of this process by a monotonic clock,
 * so a step of the wall clock lets no more through. A budget reaches it only if its window is shorter than the
 * worker's, or if its state was forged.
 */
export function boundSends(client: AgentJobsClient, { projects, ceiling }: SendBounds): AgentJobsClient {
  const served = projects === '*' ? undefined : new Set(projects);
  /** Start times of the sends of the last window, by project. */
  const begun = new Map<string, number[]>();
  let forgottenAtMs = performance.now();

  const refusal = (projectId: string): string | undefined =>
    served === undefined || served.has(projectId)
      ? undefined
      : `this worker does not serve project ${projectId} (FOLLOW_UP_PROJECTS)`;

  function isFull(projectId: string): boolean {
    const nowMs = performance.now();
    // Once per window, so that inactive projects cost no memory.
    if (nowMs - forgottenAtMs >= ceiling.windowMs) {
      forgottenAtMs = nowMs;
      for (const project of begun.keys()) forget(project, nowMs);
    }
    return forget(projectId, nowMs) >= ceiling.limit;
  }

  /** Forgets a project's sends of earlier windows, and returns the number of the others. */
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
        const allowed = `${ceiling.limit} messages in ${formatDuration(ceiling.windowMs)}`;
        return {
          outcome: 'notSent',
          message: `nothing was sent: this worker has sent ${allowed} to project ${projectId}, the most that FOLLOW_UP_BUDGET_MAX_LIMIT allows, and its budget granted more`,
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
