import type { RecentSends } from '../budget/loop.js';
import type { Delivered } from '../contract/index.js';
import { comparedFields } from '../follow-up/judge.js';
import type { ReadRequest, ReadResult } from '../follow-up/port.js';
import type { FollowUpReport } from '../protocol/index.js';
import { ownRun } from './activity-context.js';
import { createAskForSlot } from './ask-for-slot.js';
import type { ActivityDependencies } from './dependencies.js';
import { toRead } from './job-read.js';
import type { SendsQuery } from './list-sends.js';
import { createSendMessage } from './send-message.js';
import { createWatchJob } from './watch-job.js';

export type { ActivityDependencies } from './dependencies.js';

/** The activities of the workflows `followUp` and `projectBudget`. */
export function createActivities(dependencies: ActivityDependencies) {
  const { agentJobs, budgets, leaseMs, drainMs } = dependencies;
  return {
    askForSlot: createAskForSlot(dependencies),

    /** Asks the budget whether another run has delivered the message. */
    async wasDelivered({ projectId, messageTag }: { projectId: string; messageTag: string }): Promise<Delivered> {
      return budgets.wasDelivered(projectId, { ...ownRun(), messageTag });
    },

    /** Reads the job before another send is scheduled. */
    async readJob({ runId, ...job }: ReadRequest): Promise<ReadResult> {
      if (ownRun().runId !== runId) return { kind: 'foreign' };
      const read = toRead(await agentJobs.getJob(job));
      return read.kind === 'job' ? { ...read, job: comparedFields(read.job) } : read;
    },

    sendMessage: createSendMessage(dependencies),

    /** Signals a report to the project's budget. */
    async reportToBudget({ projectId, report }: { projectId: string; report: FollowUpReport }): Promise<void> {
      // A reset run must not return its predecessor's grant, which may have been used.
      const isForeign = report.runId !== ownRun().runId;
      if (report.kind === 'outcome' && report.outcome === 'notSent' && isForeign) return;
      await budgets.report(projectId, report);
    },

    watchJob: createWatchJob(dependencies),

    /** Lists a project's follow-ups that may have sent: see {@link listSends}. */
    async listRecentSends(query: SendsQuery): Promise<RecentSends> {
      // A send may still leave during the lease and the drain, even after its follow-up was closed.
      const sinceMs = query.sinceMs - leaseMs - drainMs;
      return { ...(await budgets.listSends({ ...query, sinceMs })), leaseMs, drainMs, runId: ownRun().runId };
    },
  };
}

export type Activities = ReturnType<typeof createActivities>;
