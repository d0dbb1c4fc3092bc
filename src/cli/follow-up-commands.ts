import {
  FollowUpClientError,
  type FollowUpHandle,
  type FollowUpSummary,
  type FollowUpUpdate,
  type ListFilter,
  type LiveProgress,
  parseStartInput,
  type StartedFollowUp,
  TemporalUnreachableError,
} from '../client/index.js';
import { defined } from '../common/index.js';
import { type DeliveryDecision, type FollowUpResult, followUpWorkflowId, isEndState } from '../contract/index.js';
import { headlineOf, nextStep } from '../follow-up/follow-up-details.js';
import { safeLine } from '../node/terminal-text.js';
import { type Cli, ExitCode, interruptible, UsageError } from './cli.js';
import { type ReportedError, reportOf } from './error-report.js';
import { type PromptSource, readPrompt, toInputFields } from './input-options.js';
import { clock, counted, formatTrouble, localTime, plainLines, rowsOf } from './lines.js';
import { type ProgressRow, type ProgressText, showRow } from './progress-rows.js';
import { sayWhenUnattended, withHint, withTemporal } from './session.js';

/** `follow-up send` */
export async function send(
  cli: Cli,
  projectId: string,
  jobId: string,
  dash: string | undefined,
  options: PromptSource & { key?: string; wait: boolean },
): Promise<ExitCode> {
  const prompt = await readPrompt(cli.io, { ...options, dash });
  if (prompt === undefined) throw new UsageError('prompt: give it with --prompt, --prompt-file, or - for stdin');
  const input = defined({ projectId, jobId, prompt, key: options.key, ...toInputFields(options) });
  const { key, followUpInput } = parseStartInput(input);
  const workflowId = followUpWorkflowId({ projectId, jobId, key });
  const { output } = cli;
  return withTemporal(cli, (session) =>
    interruptible(cli, async (signal) => {
      const hint = `if ${workflowId} was started, it continues, and the same command with --key ${key} returns to it`;
      const [started] = await Promise.all([
        session.followUps.start({ ...followUpInput, key }).catch((error: unknown) => {
          throw withHint(error, workflowId, hint, true);
        }),
        sayWhenUnattended(session, output),
      ]);
      reportStart(cli, started);
      const { alreadyStarted, inputDiffers } = started;
      if (!options.wait) {
        output.data({ workflowId, projectId, jobId, key, alreadyStarted, inputDiffers }, workflowId);
        return ExitCode.ok;
      }
      const result = await showRow(output, progressRow(started, signal)).catch((error: unknown) => {
        throw withHint(error, workflowId, `the follow-up continues. To see it, run: follow-up status ${workflowId}`);
      });
      output.data({ workflowId, alreadyStarted, inputDiffers, ...result }, describeResult(workflowId, result));
      // An archived job is a success: the message was sent.
      return result.status === 'failed' ? ExitCode.jobFailed : ExitCode.ok;
    }),
  );
}

function reportStart({ output }: Cli, { workflowId, key, alreadyStarted, inputDiffers }: StartedFollowUp): void {
  output.note(
    alreadyStarted ? `key ${key} was used before: this is that follow-up, ${workflowId}` : `started ${workflowId}`,
  );
  if (inputDiffers === true) {
    output.note(
      'warning: it was started with another input, and this call sends nothing; to send this input, use another key',
    );
  } else if (alreadyStarted && inputDiffers === undefined) {
    output.note('warning: it is unknown whether it was started with the same input');
  }
}

/** Shows the progress of a follow-up until it ends. Throws what `FollowUpHandle.result` throws. */
export function progressRow(followUp: FollowUpHandle, signal: AbortSignal): ProgressRow<FollowUpResult> {
  return {
    label: followUp.workflowId.split('/').slice(1, 3).join('/'),
    work: async (report) => {
      for await (const update of followUp.watch({ signal })) report(describeUpdate(update));
      return followUp.result({ signal });
    },
    summarise: ({ status, prLink }) => `job ${status}, ${prLink ?? 'no pull request'}`,
  };
}

/** `follow-up status`. If the follow-up does not answer, it shows Temporal's own records, with another exit code. */
export async function showStatus({ env, output }: Cli, workflowId: string): Promise<ExitCode> {
  return withTemporal({ env, output }, async ({ followUps }) => {
    const followUp = followUps.handle(workflowId);
    const found = await followUp.describe();
    if (found.status !== 'running') {
      const end = await lookAtEnd(followUp);
      const text = 'result' in end ? describeResult(workflowId, end.result) : describeEnd(end.error);
      const standing = `${standingOf(found)}${found.endedAt ? ` ${localTime(found.endedAt)}` : ''}`;
      output.data({ ...found, ...end }, `${standing}\n${text}`);
      return ExitCode.ok;
    }
    const trouble = await followUp.trouble();
    const hasNoWorker = trouble?.kind === 'unattended';
    if (hasNoWorker) output.note(`the follow-up ${trouble.what}; run follow-up doctor`);
    // Without a worker, the query would only wait for its deadline.
    const update = hasNoWorker ? { summary: found, progressUnavailable: `it ${trouble.what}` } : await followUp.look();
    const { summary, ...live } = update;
    const isSent = live.progress?.sentAt !== undefined;
    const ofBudget = isSent ? undefined : await followUps.budget(summary.projectId).trouble();
    const troubles = [trouble, ofBudget].filter((found) => found !== undefined);
    const { headline, timing } = describeUpdate(update);
    const prLink = live.progress?.prLink ?? summary.prLink;
    const step = wayOut(live.progress, workflowId);
    const lines = [
      headline,
      timing,
      prLink ? `pull request  ${safeLine(prLink)}` : '',
      ...troubles.map(formatTrouble),
      ...(troubles.length === 0 && step ? [`-> ${step}`] : []),
    ];
    output.data({ ...summary, ...live, ...(troubles.length > 0 && { troubles }) }, lines.filter(Boolean).join('\n'));
    return live.progress ? ExitCode.ok : ExitCode.error;
  });
}

/** Describes why a follow-up has no result, and its delivery. */
function describeEnd({ type, message, delivered }: ReportedError): string {
  return safeLine(`${type}: ${message}${delivered === undefined ? '' : ` (delivered: ${delivered})`}`);
}

async function lookAtEnd(followUp: FollowUpHandle) {
  try {
    return { result: await followUp.result() };
  } catch (error) {
    if (!(error instanceof FollowUpClientError) || error instanceof TemporalUnreachableError) throw error;
    return { error: reportOf(error).report };
  }
}

/** `follow-up list` */
export async function listFollowUps(
  { env, output }: Cli,
  { json: _json, ...filter }: ListFilter & { json?: boolean },
): Promise<void> {
  await withTemporal({ env, output }, ({ followUps }) =>
    output.list(followUps.list(filter), {
      columns: { started: 26, state: 18, job: 9, workflow: 0, 'pull request': 0 },
      row: cellsOf,
      none: 'no follow-ups found; a new one may take a second to be listed',
    }),
  );
}

/** A row of the list; the last cell is the pull request. */
export function cellsOf(followUp: FollowUpSummary): string[] {
  const { workflowId, jobStatus = '-', prLink = '', startedAt } = followUp;
  return [localTime(startedAt), standingOf(followUp), jobStatus, workflowId, prLink];
}

/** `follow-up cancel` */
export const cancel = followUpCommand(
  (followUp) => followUp.cancel(),
  () => ({ cancelRequested: true }),
  (workflowId) => `asked ${workflowId} to end`,
);

/** `follow-up poll-now` */
export const pollNow = followUpCommand(
  (followUp) => followUp.pollNow(),
  () => ({ pollRequested: true }),
  (workflowId) => `asked ${workflowId} to poll its job`,
);

/** `follow-up resolve` */
export const resolve = followUpCommand(
  (followUp, decision: DeliveryDecision) => followUp.resolve(decision),
  (resolved) => ({ resolved }),
  (workflowId, decision) => `${workflowId} now treats its message as ${decision}`,
);

function followUpCommand<Decision = unknown>(
  give: (followUp: FollowUpHandle, decision: Decision) => Promise<void>,
  done: (decision: Decision) => object,
  text: (workflowId: string, decision: Decision) => string,
) {
  return async ({ env, output }: Cli, workflowId: string, decision: Decision): Promise<void> => {
    await withTemporal({ env, output }, async (session) => {
      await give(session.followUps.handle(workflowId), decision);
      output.data({ workflowId, ...done(decision) }, text(workflowId, decision));
      await sayWhenUnattended(session, output);
    });
  };
}

function describeResult(workflowId: string, result: FollowUpResult): string {
  const { status, prLink, prLinkChanged, delivery, observedActive, polls, sentAt, finishedAt } = result;
  // A job may start and end between two polls, which matters only without any other trace of its work.
  const isTraceless = !observedActive && !prLinkChanged;
  return rowsOf([
    ['status', status],
    ['pull request', `${prLink === null ? 'none' : safeLine(prLink)}${prLinkChanged ? ' (new)' : ''}`],
    [
      'delivery',
      `${delivery}${isTraceless ? '; the job was never seen working, and its pull request has not changed' : ''}`,
    ],
    ['sent', localTime(sentAt)],
    ['finished', `${localTime(finishedAt)} after ${counted(polls, 'poll')}`],
    ['workflow', workflowId],
  ]).join('\n');
}

/** The state of a follow-up, or Temporal's status if it ended without its own, for example when terminated. */
function standingOf({ status, state }: FollowUpSummary): string {
  if (status === 'running') return state ?? 'starting';
  return state !== undefined && isEndState(state) ? state : status;
}

/** Describes an update, in local time. */
export function describeUpdate({ summary, progress, progressUnavailable }: FollowUpUpdate): ProgressText {
  if (progress) return { headline: summaryOf(progress), timing: timingOf(progress) };
  const { state, jobStatus } = summary;
  const known = [state, jobStatus && `job ${jobStatus}`].filter(Boolean).join(', ');
  const reason = progressUnavailable ?? 'no response';
  return { headline: safeLine(`progress unavailable: ${reason}${known && `; last known: ${known}`}`), timing: '' };
}

function summaryOf(progress: LiveProgress): string {
  const { state, position, failure, lastError, job } = progress;
  // A job may wait in a status that this project does not know, such as COMPLETED.
  const jobStatus = state === 'waiting-for-job' ? job?.status : progress.jobStatus;
  const parts = [
    ...plainLines(headlineOf(progress, clock)),
    position === undefined ? '' : `position ${position}`,
    jobStatus === undefined ? '' : `job ${jobStatus}`,
    failure ? `${failure.type}: ${failure.message}` : '',
    lastError === undefined ? '' : `last error: ${lastError.message}`,
  ];
  return safeLine(parts.filter(Boolean).join(', '));
}

function timingOf(progress: LiveProgress): string {
  const { expectedSendAt, sentAt, polls, nextPollAt, nextTryAt, state, asOf, waitsUntil, pause } = progress;
  const triesAt = nextTryAt ?? (pause && pause.by !== 'operator' ? pause.until : undefined);
  const parts = [
    sentAt === undefined && expectedSendAt !== undefined ? `send expected ${clock(expectedSendAt)}` : '',
    sentAt === undefined ? '' : `sent ${clock(sentAt)}`,
    polls > 0 ? counted(polls, 'poll') : '',
    isEndState(state) || nextPollAt === undefined ? '' : `next poll ${clock(nextPollAt)}`,
    triesAt === undefined ? '' : `tries again ${clock(triesAt)}`,
    state === 'reconciling' && waitsUntil !== undefined ? `decides ${clock(waitsUntil)}` : '',
    asOf === undefined ? '' : `as of ${clock(asOf)}`,
  ];
  return parts.filter(Boolean).join(', ');
}

/** The next step for a follow-up that does not continue by itself; empty if there is none. */
function wayOut(progress: LiveProgress | undefined, workflowId: string): string {
  if (!progress) return '';
  const { state, waitReason } = progress;
  const isUnreadable = state === 'polling' && waitReason !== undefined;
  if (state !== 'blocked' && state !== 'reconciling' && !isUnreadable && !progress.failure) return '';
  return plainLines(nextStep(progress, workflowId) ?? '').join(' ');
}
