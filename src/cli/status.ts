import {
  type BudgetHandle,
  FollowUpClientError,
  type FollowUpHandle,
  TemporalUnreachableError,
  WorkerUnavailableError,
  type WorkflowTrouble,
} from '../client/index.js';
import { classify } from './classify-error.js';
import type { Cli } from './cli.js';
import { describeResult, describeTrouble, describeUpdate, localTime, standingOf } from './follow-up-text.js';
import type { ReportedError } from './report-error.js';
import { safeLine } from './safe-text.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up status` */
export async function showStatus({ env, output }: Cli, workflowId: string): Promise<void> {
  await withTemporal(env, async ({ followUps }) => {
    const followUp = followUps.handle(workflowId);
    const summary = await followUp.describe();
    if (summary.status !== 'running') {
      const end = await lookAtEnd(followUp);
      const text = 'result' in end ? describeResult(workflowId, end.result) : describeEnd(end.error);
      const standing = `${standingOf(summary)}${summary.endedAt ? ` ${localTime(summary.endedAt)}` : ''}`;
      output.data({ ...summary, ...end }, `${standing}\n${text}`);
      return;
    }
    const live = await lookAtProgress(followUp);
    const isSent = live.progress?.sentAt !== undefined;
    const troubles = await lookForTrouble(followUp, isSent ? undefined : followUps.budget(summary.projectId));
    const { headline, timing } = describeUpdate({ summary, ...live });
    const prLink = live.progress?.prLink ?? summary.prLink;
    const lines = [
      headline,
      timing,
      prLink ? `pull request  ${safeLine(prLink)}` : '',
      ...troubles.map(describeTrouble),
    ];
    output.data({ ...summary, ...live, ...(troubles.length > 0 && { troubles }) }, lines.filter(Boolean).join('\n'));
  });
}

/** What keeps a follow-up, or the budget that it waits for, from going on. */
async function lookForTrouble(followUp: FollowUpHandle, budget?: BudgetHandle): Promise<WorkflowTrouble[]> {
  const found = await Promise.all([followUp.trouble(), budget?.trouble()]);
  return found.filter((trouble) => trouble !== undefined);
}

async function lookAtProgress(followUp: FollowUpHandle) {
  try {
    return { progress: await followUp.progress() };
  } catch (error) {
    if (!(error instanceof WorkerUnavailableError)) throw error;
    const asOf = await followUp.lastChangeAt();
    return { progressUnavailable: error.reason, ...(asOf !== undefined && { asOf }) };
  }
}

/** Why a follow-up has no result, and whether its message was delivered. */
function describeEnd({ type, message, delivered }: ReportedError): string {
  return safeLine(`${type}: ${message}${delivered === undefined ? '' : ` (delivered: ${delivered})`}`);
}

async function lookAtEnd(followUp: FollowUpHandle) {
  try {
    return { result: await followUp.result() };
  } catch (error) {
    if (!(error instanceof FollowUpClientError) || error instanceof TemporalUnreachableError) throw error;
    return { error: classify(error).report };
  }
}
