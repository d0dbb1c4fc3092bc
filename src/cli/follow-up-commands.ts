import {
  FollowUpClientError,
  type FollowUpHandle,
  type FollowUpSummary,
  type FollowUpUpdate,
  type ListFilter,
  parseStartInput,
  type StartedFollowUp,
  stateOf,
  TemporalUnreachableError,
} from '../client/index.js';
import { defined, DELIVERED, type Description, markdownCode, markdownLink } from '../common/index.js';
import {
  type DeliveryDecision,
  endOf,
  FailureType,
  type FollowUpResult,
  followUpWorkflowId,
  isEndState,
} from '../contract/index.js';
import { describeFollowUp } from '../follow-up/follow-up-details.js';
import { safeLine } from '../node/terminal-text.js';
import { type Cli, ExitCode, interruptible, UsageError } from './cli.js';
import { type ReportedError, reportOf } from './error-report.js';
import { type PromptSource, readPrompt, toInputFields } from './input-options.js';
import { clock, counted, formatTrouble, localTime, plain, rowsOf, toLine, toLines } from './lines.js';
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
      for await (const update of followUp.watch({ signal })) {
        // The end is shown by its result or its error.
        if (!isEndState(update.progress?.state ?? '')) report(summariseUpdate(update));
      }
      return followUp.result({ signal });
    },
    summarise: ({ status, prLink }) => `job ${status}, ${prLink ?? 'no pull request'}`,
    isFailure: ({ status }) => status === 'failed',
  };
}

/** `follow-up status`. If the follow-up does not answer, it shows Temporal's own records, with another exit code. */
export async function showStatus({ env, output }: Cli, workflowId: string): Promise<ExitCode> {
  return withTemporal({ env, output }, async ({ followUps }) => {
    const followUp = followUps.handle(workflowId);
    const found = await followUp.describe();
    if (found.status !== 'running') {
      const end = await lookAtEnd(followUp);
      output.data(
        { ...found, ...end },
        'result' in end ? describeResult(workflowId, end.result) : describeEnd(found, end.error),
      );
      return ExitCode.ok;
    }
    const trouble = await followUp.trouble();
    const hasNoWorker = trouble?.kind === 'unattended';
    // Without a worker, the query would only wait for its deadline.
    const update = hasNoWorker ? { summary: found, progressUnavailable: `it ${trouble.what}` } : await followUp.look();
    const { summary, ...live } = update;
    const isSent = live.progress?.sentAt !== undefined;
    const ofBudget = isSent ? undefined : await followUps.budget(summary.projectId).trouble();
    const troubles = [trouble, ofBudget].filter((found) => found !== undefined);
    const description = describeUpdate(trouble ? { ...update, progressUnavailable: 'see below' } : update);
    // The way out of a trouble comes first.
    const nextSteps = troubles.length === 0 ? description.nextSteps : [];
    const lines = [...toLines({ ...description, nextSteps }), ...troubles.map(formatTrouble)];
    output.data({ ...summary, ...live, ...(troubles.length > 0 && { troubles }) }, lines.join('\n'));
    return live.progress ? ExitCode.ok : ExitCode.error;
  });
}

/** Describes a follow-up that ended without a result that this version can read. Only a known failure has a state. */
export function describeEnd(found: FollowUpSummary, { type, message, delivered }: ReportedError): string {
  const { workflowId, projectId, jobId, startedAt, endedAt } = found;
  const known = Object.values(FailureType).find((each) => each === type);
  const progress = { projectId, jobId, polls: 0, learnedAt: endedAt ?? startedAt };
  const description =
    known && delivered
      ? describeFollowUp({ ...progress, ...endOf({ type: known, message, delivered }) }, workflowId, clock, Date.now())
      : {
          headline: stateOf(found),
          rows: [
            ['message', delivered && DELIVERED[delivered]],
            ['why', markdownCode(`${type}: ${message}`)],
          ] as const,
          nextSteps: [],
        };
  return toLines({ ...description, rows: [...description.rows, ['ended', endedAt && localTime(endedAt)]] }).join('\n');
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
      columns: ['started', 'state', 'job', 'workflow', 'pull request'],
      row: cellsOf,
      none: 'no follow-ups found; a new one may take a second to be listed',
    }),
  );
}

/** A row of the list; the last cell is the pull request. */
export function cellsOf(followUp: FollowUpSummary): string[] {
  const { workflowId, jobStatus = '-', prLink = '', startedAt } = followUp;
  return [localTime(startedAt), stateOf(followUp), jobStatus, workflowId, prLink];
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

/** Describes an update, in local time. */
export function describeUpdate({ summary, progress, progressUnavailable }: FollowUpUpdate): Description {
  const { workflowId, state, jobStatus, prLink } = summary;
  if (progress) return describeFollowUp(progress, workflowId, clock, Date.now());
  const known = [state, jobStatus && `job ${markdownCode(jobStatus)}`].filter(Boolean).join(', ');
  return {
    headline: `progress unavailable: ${progressUnavailable ?? 'no response'}${known && `; last known: ${known}`}`,
    rows: [['pull request', prLink && markdownLink(prLink)]],
    nextSteps: [],
  };
}

/** Describes an update for a live display. */
export function summariseUpdate(update: FollowUpUpdate): ProgressText {
  const description = describeUpdate(update);
  const error = update.progress?.lastError?.message;
  const lastError = error === undefined ? '' : `, last error: ${safeLine(error)}`;
  return { headline: `${plain(description.headline)}${lastError}`, timing: toLine(description) };
}
