import {
  FollowUpClientError,
  type FollowUpHandle,
  type FollowUpUpdate,
  TemporalUnreachableError,
} from '../client/index.js';
import { lookAtProgress } from '../client/watch.js';
import { classify } from './classify-error.js';
import type { Cli } from './cli.js';
import { ExitCode } from './errors.js';
import { describeResult, describeTrouble, describeUpdate, localTime, standingOf, wayOut } from './follow-up-text.js';
import type { ReportedError } from './classify-error.js';
import { safeLine } from './safe-text.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up status`. What Temporal knows is shown also where the follow-up gives no answer, with another exit code. */
export async function showStatus({ env, output }: Cli, workflowId: string): Promise<ExitCode> {
  return withTemporal({ env, output }, async ({ followUps }) => {
    const followUp = followUps.handle(workflowId);
    const summary = await followUp.describe();
    if (summary.status !== 'running') {
      const end = await lookAtEnd(followUp);
      const text = 'result' in end ? describeResult(workflowId, end.result) : describeEnd(end.error);
      const standing = `${standingOf(summary)}${summary.endedAt ? ` ${localTime(summary.endedAt)}` : ''}`;
      output.data({ ...summary, ...end }, `${standing}\n${text}`);
      return ExitCode.ok;
    }
    const trouble = await followUp.trouble();
    const hasNoWorker = trouble?.kind === 'unattended';
    if (hasNoWorker) output.note(`the follow-up ${trouble.what}; run follow-up doctor`);
    // Without a worker the question would only wait for its deadline.
    const live: Omit<FollowUpUpdate, 'summary'> = hasNoWorker
      ? { progressUnavailable: `it ${trouble.what}` }
      : await lookAtProgress(followUp);
    const isSent = live.progress?.sentAt !== undefined;
    const ofBudget = isSent ? undefined : await followUps.budget(summary.projectId).trouble();
    const troubles = [trouble, ofBudget].filter((found) => found !== undefined);
    const { headline, timing } = describeUpdate({ summary, ...live });
    const prLink = live.progress?.prLink ?? summary.prLink;
    const step = wayOut(live.progress, workflowId);
    const lines = [
      headline,
      timing,
      prLink ? `pull request  ${safeLine(prLink)}` : '',
      ...troubles.map(describeTrouble),
      ...(troubles.length === 0 && step ? [`-> ${step}`] : []),
    ];
    output.data({ ...summary, ...live, ...(troubles.length > 0 && { troubles }) }, lines.filter(Boolean).join('\n'));
    return live.progress ? ExitCode.ok : ExitCode.error;
  });
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
