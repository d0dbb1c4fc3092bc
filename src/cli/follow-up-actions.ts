import {
  FollowUpClientError,
  type FollowUpHandle,
  type FollowUpUpdate,
  type ListedFollowUp,
  type ListFilter,
  TemporalUnreachableError,
} from '../client/index.js';
import { lookAtProgress } from '../client/watches.js';
import { type ResolveWord, resolveWords } from '../contract/choices.js';
import { safeLine } from '../terminal-text.js';
import { classify, type ReportedError } from './classify-error.js';
import { type Cli, ExitCode, UsageError } from './cli.js';
import {
  clock,
  describeResult,
  describeTrouble,
  describeUpdate,
  localTime,
  standingOf,
  wayOut,
} from './follow-up-text.js';
import { withTemporal } from './temporal-session.js';

/**
 * `follow-up status`. If the follow-up does not answer, it shows what Temporal knows, with another exit code.
 */
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

interface ListOptions extends ListFilter {
  json?: boolean;
}

/** Widths of all columns but the last. */
const WIDTHS = [26, 18, 9];
const HEADER = row(['STARTED', 'STATE', 'JOB', 'WORKFLOW', '']);

/** `follow-up list` */
export async function listFollowUps({ env, output }: Cli, { json: _json, ...filter }: ListOptions): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps }) => {
    let count = 0;
    const silent = new Map<string, string>();
    for await (const followUp of followUps.list(filter)) {
      if (count++ === 0 && !output.json) output.data(undefined, HEADER);
      output.data(followUp, describeListed(followUp));
      const { unavailable } = followUp.place ?? {};
      if (unavailable !== undefined) silent.set(followUp.projectId, unavailable);
    }
    if (count === 0) output.note('no follow-ups found; a new one may take a second to be listed');
    for (const [projectId, reason] of silent) {
      output.note(safeLine(`places unknown: the budget of ${projectId} does not answer: ${reason}`));
    }
  });
}

/** A line of the list. Times are local. */
export function describeListed(followUp: ListedFollowUp, now = new Date()): string {
  const { workflowId, jobStatus, prLink, place, watch, ask, startedAt } = followUp;
  const reason = ask?.reason ?? place?.waitReason ?? '';
  const expected = place?.expectedAt === undefined ? '' : `expected ${clock(place.expectedAt, now)}`;
  const placeText = place?.position === undefined ? '' : `position ${place.position}`;
  const next = watch?.nextPollAt === undefined ? '' : `next poll ${clock(watch.nextPollAt, now)}`;
  const again = ask?.nextTryAt === undefined ? '' : `tries again ${clock(ask.nextTryAt, now)}`;
  const late = watch?.overdue ?? ask?.overdue;
  const overdue = late === undefined ? '' : `overdue: ${late}`;
  const failed = watch?.lastError ?? ask?.lastError;
  const error = failed === undefined ? '' : `last error: ${failed.message}`;
  const last = [reason, placeText, expected, next, again, overdue, error, prLink].filter(Boolean).join(', ');
  return row([localTime(startedAt), standingOf(followUp), jobStatus ?? '-', workflowId, last]);
}

function row(cells: readonly string[]): string {
  return cells
    .map((cell, index) => safeLine(cell).padEnd(WIDTHS[index] ?? 0))
    .join('  ')
    .trimEnd();
}

/** `follow-up cancel` */
export async function cancel({ env, output }: Cli, workflowId: string): Promise<void> {
  await withTemporal({ env, output }, ({ followUps }) => followUps.handle(workflowId).cancel());
  output.data({ workflowId, cancelRequested: true }, `asked ${workflowId} to end`);
}

/** `follow-up poll-now` */
export async function pollNow({ env, output }: Cli, workflowId: string): Promise<void> {
  await withTemporal({ env, output }, ({ followUps }) => followUps.handle(workflowId).pollNow());
  output.data({ workflowId, pollRequested: true }, `asked ${workflowId} to look at its job`);
}

/** `follow-up resolve` */
export async function resolve({ env, output }: Cli, workflowId: string, word: string): Promise<void> {
  if (!isResolveWord(word)) {
    throw new UsageError(`word: must be ${resolveWords.join(' or ')} (given ${JSON.stringify(word)})`);
  }
  await withTemporal({ env, output }, ({ followUps }) => followUps.handle(workflowId).resolve(word));
  output.data({ workflowId, resolved: word }, `${workflowId} takes it as ${word}`);
}

function isResolveWord(word: string): word is ResolveWord {
  return (resolveWords as readonly string[]).includes(word);
}
