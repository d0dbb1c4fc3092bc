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
import { type ResolveWord, resolveWords } from '../contract/choices.js';
import { defined } from '../contract/defined.js';
import { type FollowUpResult, isEndState } from '../contract/index.js';
import { describeState, nextStep } from '../follow-up/details.js';
import { plainText, safeLine } from '../terminal-text.js';
import { type Cli, ExitCode, InterruptedError, interruptible, StartUnknownError, UsageError } from './cli.js';
import { type ReportedError, reportOf } from './errors.js';
import { type PromptSource, readPrompt, type SettingOptions, toSettings } from './options.js';
import { type ProgressRow, type ProgressText, showProgress } from './progress.js';
import { sayWhenUnattended, withTemporal } from './session.js';
import { clock, describeTrouble, localTime, plainLines } from './text.js';

interface SendOptions extends SettingOptions, PromptSource {
  key?: string;
  wait: boolean;
}

/** `follow-up send` */
export async function send(
  cli: Cli,
  projectId: string,
  jobId: string,
  dash: string | undefined,
  options: SendOptions,
): Promise<ExitCode> {
  const prompt = await readPrompt(cli.io, { ...options, ...defined({ dash }) });
  if (prompt === undefined) throw new UsageError('prompt: give it with --prompt, --prompt-file, or - for stdin');
  const input = defined({ projectId, jobId, prompt, key: options.key, ...toSettings(options) });
  const { key, followUpInput } = parseStartInput(input);
  return withTemporal(cli, (session) =>
    interruptible(cli, async (signal) => {
      const starting = session.followUps.start({ ...followUpInput, key });
      const [started] = await Promise.all([
        starting.catch((error: unknown) => {
          throw withWayOn(error, key);
        }),
        sayWhenUnattended(session, cli.output),
      ]);
      reportStart(cli, started);
      if (!options.wait) {
        const { workflowId, alreadyStarted, inputDiffers } = started;
        cli.output.data({ workflowId, projectId, jobId, key, alreadyStarted, inputDiffers }, workflowId);
        return ExitCode.ok;
      }
      return awaitResult(cli, started, signal);
    }),
  );
}

function reportStart({ output }: Cli, { workflowId, key, alreadyStarted, inputDiffers }: StartedFollowUp): void {
  output.note(
    alreadyStarted ? `key ${key} was used before: this is that follow-up, ${workflowId}` : `started ${workflowId}`,
  );
  if (inputDiffers === true) {
    output.note('warning: its input differs from this one; nothing was sent for this call, use another key to send it');
  } else if (alreadyStarted && inputDiffers === undefined) {
    output.note('warning: whether its input differs from this one is unknown');
  }
}

async function awaitResult({ output }: Cli, started: StartedFollowUp, signal: AbortSignal): Promise<ExitCode> {
  const { workflowId, alreadyStarted, inputDiffers } = started;
  const { row, outcome } = awaitFollowUp(workflowId.split('/').slice(1, 3).join('/'), started, signal);
  await showProgress(output, [row]);
  try {
    const result = outcome();
    output.data({ workflowId, alreadyStarted, inputDiffers, ...result }, describeResult(workflowId, result));
    return exitCodeOf(result);
  } catch (error) {
    const wayBack = `the follow-up continues. To see it, run: follow-up status ${workflowId}`;
    if (error instanceof InterruptedError) {
      error.workflowId = workflowId;
      error.message = `interrupted; ${wayBack}`;
    } else if (error instanceof TemporalUnreachableError) error.message = `${error.message}; ${wayBack}`;
    throw error;
  }
}

function withWayOn(error: unknown, key: string): unknown {
  if (!(error instanceof TemporalUnreachableError)) return error;
  return new StartUnknownError(error, error.workflowId ?? '', `the same command with --key ${key}`);
}

/** A follow-up that is awaited. Its outcome is known once its row has been shown. */
interface AwaitedFollowUp {
  row: ProgressRow;
  /** @throws what `FollowUpHandle.result` throws, or the signal's reason */
  outcome: () => FollowUpResult;
}

/** Makes a row that shows the progress of a follow-up until it ends, or the signal is aborted. */
export function awaitFollowUp(label: string, followUp: FollowUpHandle, signal: AbortSignal): AwaitedFollowUp {
  let settled: { result: FollowUpResult } | { error: unknown } = { error: new Error('not waited for') };
  const wait = async (report: (progress: ProgressText) => void) => {
    for await (const update of followUp.watch({ signal })) report(describeUpdate(update));
    return followUp.result({ signal });
  };
  return {
    row: {
      label,
      work: async (report) => {
        try {
          const result = await wait(report);
          settled = { result };
          return summariseResult(result);
        } catch (error) {
          settled = { error };
          throw error;
        }
      },
    },
    outcome: () => {
      if ('error' in settled) throw settled.error;
      return settled.result;
    },
  };
}

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
    const { progress, progressUnavailable }: Omit<FollowUpUpdate, 'summary'> = hasNoWorker
      ? { progressUnavailable: `it ${trouble.what}` }
      : await followUp.look();
    const isSent = progress?.sentAt !== undefined;
    const ofBudget = isSent ? undefined : await followUps.budget(summary.projectId).trouble();
    const troubles = [trouble, ofBudget].filter((found) => found !== undefined);
    const { headline, timing } = describeUpdate(defined({ summary, progress, progressUnavailable }));
    const prLink = progress?.prLink ?? summary.prLink;
    const step = wayOut(progress, workflowId);
    const lines = [
      headline,
      timing,
      prLink ? `pull request  ${safeLine(prLink)}` : '',
      ...troubles.map(describeTrouble),
      ...(troubles.length === 0 && step ? [`-> ${step}`] : []),
    ];
    const shown = { progress, progressUnavailable, troubles: troubles.length > 0 ? troubles : undefined };
    output.data({ ...summary, ...defined(shown) }, lines.filter(Boolean).join('\n'));
    return progress ? ExitCode.ok : ExitCode.error;
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
    return { error: reportOf(error).report };
  }
}

/** `follow-up list` */
export async function listFollowUps(
  { env, output }: Cli,
  { json: _json, ...filter }: ListFilter & { json?: boolean },
): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps }) => {
    let count = 0;
    for await (const followUp of followUps.list(filter)) {
      if (count++ === 0 && !output.json) output.data(undefined, toRow('STARTED', 'STATE', 'JOB', 'WORKFLOW'));
      output.data(followUp, describeListed(followUp));
    }
    if (count === 0) output.note('no follow-ups found; a new one may take a second to be listed');
  });
}

/** A line of the list. */
export function describeListed(followUp: FollowUpSummary): string {
  const { workflowId, jobStatus = '-', prLink = '', startedAt } = followUp;
  return toRow(localTime(startedAt), standingOf(followUp), jobStatus, workflowId, prLink);
}

function toRow(started: string, state: string, job: string, workflowId: string, prLink = ''): string {
  const cells = [started.padEnd(26), state.padEnd(18), safeLine(job).padEnd(9), workflowId, prLink];
  return cells.map(plainText).join('  ').trimEnd();
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

/** A result for people. */
export function describeResult(workflowId: string, result: FollowUpResult): string {
  const { status, prLink, prLinkChanged, delivery, observedActive, polls, sentAt, finishedAt } = result;
  return [
    `status        ${status}`,
    `pull request  ${prLink === null ? 'none' : safeLine(prLink)}${prLinkChanged ? ' (new)' : ''}`,
    // A job may begin and end between two looks. Worth mentioning only if there is no other trace of its work.
    `delivery      ${delivery}${observedActive || prLinkChanged ? '' : '; the job was never seen working, and its pull request has not changed'}`,
    `sent          ${localTime(sentAt)}`,
    `finished      ${localTime(finishedAt)} after ${polls} ${polls === 1 ? 'poll' : 'polls'}`,
    `workflow      ${workflowId}`,
  ].join('\n');
}

/** One line of {@link describeResult}. */
export function summariseResult({ status, prLink }: FollowUpResult): string {
  return `job ${status}${prLink === null ? ', no pull request' : `, ${safeLine(prLink)}`}`;
}

/** An archived job counts as success: the message was sent. */
export function exitCodeOf({ status }: FollowUpResult): ExitCode {
  return status === 'failed' ? ExitCode.jobFailed : ExitCode.ok;
}

/** One word for the state of a follow-up. Temporal's word if it ended without its own, for example when terminated. */
export function standingOf({ status, state }: FollowUpSummary): string {
  if (status === 'running') return state ?? 'starting';
  return state !== undefined && isEndState(state) ? state : status;
}

/** An update for people. Clock times are local. */
export function describeUpdate({ summary, progress, progressUnavailable }: FollowUpUpdate): ProgressText {
  if (progress) return { headline: headlineOf(progress), timing: timingOf(progress) };
  const known = [summary.state, summary.jobStatus && `job ${safeLine(summary.jobStatus)}`];
  const last = known.filter(Boolean).join(', ');
  return {
    headline: `progress unavailable: ${safeLine(progressUnavailable ?? 'no answer')}${last ? `; last known: ${last}` : ''}`,
    timing: '',
  };
}

function headlineOf(progress: LiveProgress): string {
  const { state, position, failure, lastError, job } = progress;
  // A job may wait in a status that this project does not know, such as COMPLETED.
  const jobStatus = state === 'waiting-for-job' ? job?.status : progress.jobStatus;
  const parts = [
    ...plainLines(describeState(progress, clock)),
    position === undefined ? undefined : `position ${position}`,
    jobStatus === undefined ? undefined : `job ${safeLine(jobStatus)}`,
    failure ? safeLine(`${failure.type}: ${failure.message}`) : undefined,
    lastError === undefined ? undefined : `last error: ${safeLine(lastError.message)}`,
  ];
  return parts.filter((part) => part !== undefined).join(', ');
}

function timingOf(progress: LiveProgress): string {
  const { expectedSendAt, sentAt, polls, nextPollAt, pause, state, asOf, waitsUntil } = progress;
  const nextTryAt = progress.nextTryAt ?? (pause?.by === 'service' ? pause.until : undefined);
  const parts = [
    sentAt === undefined && expectedSendAt !== undefined ? `send expected ${clock(expectedSendAt)}` : undefined,
    sentAt === undefined ? undefined : `sent ${clock(sentAt)}`,
    polls > 0 ? `${polls} ${polls === 1 ? 'poll' : 'polls'}` : undefined,
    isEndState(state) || nextPollAt === undefined ? undefined : `next poll ${clock(nextPollAt)}`,
    nextTryAt === undefined ? undefined : `tries again ${clock(nextTryAt)}`,
    state === 'reconciling' && waitsUntil !== undefined ? `decides ${clock(waitsUntil)}` : undefined,
    asOf === undefined ? undefined : `as of ${clock(asOf)}`,
  ];
  return parts.filter((part) => part !== undefined).join(', ');
}

/** What a person can do about a follow-up that does not continue on its own; empty if there is nothing to do. */
export function wayOut(progress: LiveProgress | undefined, workflowId: string): string {
  if (!progress) return '';
  const { state, waitReason } = progress;
  const isUnreadable = state === 'polling' && waitReason !== undefined;
  if (state !== 'blocked' && state !== 'reconciling' && !isUnreadable && !progress.failure) return '';
  const step = nextStep(isUnreadable ? { ...progress, state: 'blocked', waitReason } : progress, workflowId);
  // Commands are code in Markdown.
  return step === undefined ? '' : safeLine(step.replaceAll('`', ''));
}
