import { setTimeout as sleep } from 'node:timers/promises';
import {
  type BatchHandle,
  type BatchPreview,
  type ProjectPreview,
  type RetryChoice,
  TemporalUnreachableError,
  WorkerUnavailableError,
} from '../client/index.js';
import {
  type BatchHold,
  type BatchItem,
  batchItemKey,
  type BatchStatus,
  type FollowUpBatchResult,
  followUpWorkflowId,
  formatDuration,
} from '../contract/index.js';
import { safeLine } from '../terminal-text.js';
import { type BatchInputOptions, readBatchInput } from './batch-file.js';
import { type Cli, ExitCode, InterruptedError, interruptible, isLive, StartUnknownError, UsageError } from './cli.js';
import { type ProgressText, showProgress } from './progress.js';
import { sayWhenUnattended, withTemporal } from './session.js';
import { clock, describeTrouble, rowsOf } from './text.js';

/** How many failures, pull requests and used ids are listed; `--json` has all. */
const SHOWN = 20;

/** `follow-up batch run` */
export async function runBatch(
  cli: Cli,
  file: string | undefined,
  { wait, dryRun, ...options }: BatchInputOptions & { wait: boolean; dryRun?: boolean },
): Promise<ExitCode> {
  const { output } = cli;
  const { input, lines } = await readBatchInput(cli.io, file, options);
  const rows = () =>
    input.items.map(({ projectId, jobId }, index) => {
      const workflowId = followUpWorkflowId({ projectId, jobId, key: batchItemKey(input.id, index) });
      return { index, line: lines[index], projectId, jobId, workflowId };
    });
  return withTemporal(cli, async (session) => {
    if (dryRun) {
      const preview = await session.followUps.planBatch(input);
      output.data({ ...preview, items: rows() }, describePreview(preview));
      return ExitCode.ok;
    }
    return interruptible(cli, async (signal) => {
      const [batch] = await Promise.all([
        session.followUps.startBatch(input, { signal }).catch((error: unknown) => {
          throw withWayOn(error, input.id);
        }),
        sayWhenUnattended(session, output),
      ]);
      const { batchId, workflowId, alreadyStarted } = batch;
      const total = lines.length;
      const items = `${total} ${total === 1 ? 'item' : 'items'}`;
      output.note(
        alreadyStarted
          ? `batch ${batchId} was started before with these ${items}: nothing is sent a second time`
          : `started ${workflowId} with ${items}`,
      );
      if (wait) return awaitBatch(cli, batch, signal, { alreadyStarted });
      output.data({ batchId, workflowId, alreadyStarted, total, items: rows() }, batchId);
      return ExitCode.ok;
    });
  });
}

/** `follow-up batch retry` */
export async function retryBatch(
  cli: Cli,
  asked: string,
  { only, wait, yes = false }: { only?: RetryChoice; yes?: boolean; wait: boolean },
): Promise<ExitCode> {
  const { output } = cli;
  return withTemporal(cli, ({ followUps }) =>
    interruptible(cli, async (signal) => {
      const retried = followUps.batch(asked);
      const plan = await retried.planRetry({ only });
      const { retryOf } = plan.memo;
      if (plan.delivered > 0) output.note(`${plan.delivered} skipped: already delivered`);
      if (plan.neverStarted > 0) {
        const rest = `the last ${plan.neverStarted} of its items`;
        output.note(`${rest} are left out: they were never started. Send them as a new batch`);
      }
      if (plan.open > 0) output.note(`${plan.open} skipped: still under way`);
      if (plan.unknown > 0 && !yes) {
        const doubt = `whether the message was delivered is not known of ${plan.unknown} of the items`;
        const ways = '--yes sends them again, though they may then be delivered twice; --only failed leaves them out';
        throw new UsageError(`${doubt}: ${ways}`);
      }
      const batch = await retried.retry({ plan, signal });
      const { batchId, workflowId, alreadyStarted } = batch;
      output.note(
        alreadyStarted
          ? `this retry was started before, as batch ${batchId}: nothing is sent a second time`
          : `started ${workflowId}`,
      );
      if (wait) return awaitBatch(cli, batch, signal, { retryOf, alreadyStarted });
      output.data({ batchId, workflowId, retryOf, alreadyStarted }, batchId);
      return ExitCode.ok;
    }),
  );
}

/** `follow-up batch status` */
export async function showBatch(cli: Cli, batchId: string, { watch }: { watch?: boolean }): Promise<ExitCode> {
  const { output } = cli;
  return withTemporal(cli, async ({ followUps }) => {
    const batch = followUps.batch(batchId);
    if (watch === true) return interruptible(cli, (signal) => awaitBatch(cli, batch, signal));
    const status = await batch.status();
    const failureCount = Math.min(SHOWN, status.failed + status.errors);
    const items: BatchItem[] = [];
    const failures: BatchItem[] = [];
    if (output.json || failureCount > 0) {
      for await (const item of batch.list()) {
        if (output.json) items.push(item);
        else if (isFailure(item) && failures.push(item) === failureCount) break;
      }
    }
    const troubles = status.ended || status.cutOff !== undefined ? [] : await batch.troubles();
    const text = [describeBatch(status, failures), ...troubles.map(describeTrouble)].join('\n');
    const { workflowId } = batch;
    output.data({ workflowId, ...status, ...(troubles.length > 0 && { troubles }), items: items.map(toRow) }, text);
    return ExitCode.ok;
  });
}

/** `follow-up batch continue` */
export async function continueBatch(cli: Cli, batchId: string): Promise<void> {
  await withTemporal(cli, async ({ followUps }) => {
    const batch = followUps.batch(batchId);
    const hold = await batch.continue();
    const what = hold ? `it was held: ${safeLine(hold.reason)}` : 'its first items have not all ended';
    cli.output.data({ batchId, workflowId: batch.workflowId, hold }, `batch ${batchId} goes on; ${what}`);
  });
}

/** `follow-up batch cancel` */
export async function cancelBatch(cli: Cli, batchId: string): Promise<void> {
  await withTemporal(cli, async ({ followUps }) => {
    const batch = followUps.batch(batchId);
    await batch.cancel();
    cli.output.data(
      { batchId, workflowId: batch.workflowId, cancelRequested: true },
      `asked batch ${batchId} to end; to see how it ends, run: follow-up batch status ${batchId} --watch`,
    );
  });
}

/** A live display may change every second; printed as lines, a batch of thousands would fill the log. */
const LIVE_INTERVAL_MS = 1_000;
const LINE_INTERVAL_MS = 5_000;

/**
 * Shows the progress of a batch until it ends, also while it is held, then its result.
 *
 * @param data added to the JSON document
 * @throws InterruptedError that tells the command to continue with; what `BatchHandle.result` throws
 */
async function awaitBatch({ output }: Cli, batch: BatchHandle, signal: AbortSignal, data = {}): Promise<ExitCode> {
  const { batchId, workflowId } = batch;
  const ended = new AbortController();
  const end = batch
    .result({ signal })
    .catch((error: unknown) => {
      throw withWayBack(error, batch);
    })
    .finally(() => ended.abort());
  const work = async (report: (progress: ProgressText) => void) => {
    while (!ended.signal.aborted) {
      // The result alone decides how it ended. An answer that arrives after the end is out of date.
      const progress = await Promise.race([look(batch), end]);
      if ('headline' in progress) report(progress);
      const intervalMs = isLive(output.stderr) ? LIVE_INTERVAL_MS : LINE_INTERVAL_MS;
      await sleep(intervalMs, undefined, { signal: ended.signal }).catch(() => undefined);
    }
    // The result says how.
    await end.catch(() => undefined);
    return 'ended';
  };
  await Promise.allSettled([end, showProgress(output, [{ label: `batch ${batchId}`, work }])]);
  const result = await end;
  const { items: first, truncated: _truncated, ...counts } = result;
  const items: BatchItem[] = [];
  if (output.json) for await (const item of batch.list()) items.push(item);
  const text = describeBatchResult(batchId, { ...counts, items: first });
  output.data({ batchId, workflowId, ...data, ...counts, items: items.map(toRow) }, text);
  return exitCodeOfBatch(result);
}

async function look(batch: BatchHandle): Promise<ProgressText> {
  try {
    return describeBatchProgress(await batch.status());
  } catch (error) {
    const isPassing = error instanceof WorkerUnavailableError || error instanceof TemporalUnreachableError;
    const reason = isPassing ? error.reason : error instanceof Error ? error.message : String(error);
    return { headline: `progress unavailable: ${safeLine(reason)}`, timing: '' };
  }
}

function withWayBack(error: unknown, { batchId, workflowId }: BatchHandle): unknown {
  if (error instanceof InterruptedError) {
    error.workflowId = workflowId;
    error.message = `interrupted; the batch continues. To see it, run: follow-up batch status ${batchId}`;
  }
  return error;
}

/** Items that were handed over stay; the same command continues after them. */
function withWayOn(error: unknown, batchId: string): unknown {
  if (error instanceof InterruptedError) {
    error.message = `interrupted while the items were handed over; the same command with --id ${batchId} continues from there`;
  }
  if (error instanceof TemporalUnreachableError && error.workflowId !== undefined) {
    return new StartUnknownError(error, error.workflowId, 'the same command');
  }
  return error;
}

/** An item in a JSON document. */
function toRow({ index, projectId, jobId, workflowId, status, prLink, error }: BatchItem) {
  return {
    ...{ index, projectId, jobId, workflowId },
    // The job's status; `error`: it ended without one; `pending`: it has not ended.
    status: status ?? (error ? 'error' : 'pending'),
    prLink: prLink ?? null,
    errorType: error?.type ?? null,
    message: error?.message ?? null,
    delivered: error?.delivered ?? (status ? 'yes' : null),
  };
}

/** Exit code of a batch that has ended. */
export function exitCodeOfBatch({ failed, errors, cancelled }: FollowUpBatchResult): ExitCode {
  if (errors > 0 || cancelled === true) return ExitCode.followUpFailed;
  return failed > 0 ? ExitCode.jobFailed : ExitCode.ok;
}

/** Whether an item needs attention: its agent job failed, or it ended without a result. */
function isFailure({ status, error }: BatchItem): boolean {
  return status === 'failed' || error !== undefined;
}

/** Counts of a batch, both while it runs and in its result. */
type Counts = Omit<FollowUpBatchResult, 'items'>;

/** Progress of a batch. Clock times are local. */
export function describeBatchProgress(status: BatchStatus, now = new Date()): ProgressText {
  const { batchId, open, waitingToStart, sealed, cancelled, hold } = status;
  const parts = [
    doneText(status),
    open > 0 ? openText(status) : '',
    waitingToStart > 0 ? `${waitingToStart} not started` : '',
    sealed ? '' : 'more items can come',
    cancelled ? 'cancelled' : '',
    hold ? `held ${holdText(batchId, hold, now)}` : '',
  ];
  return { headline: parts.filter(Boolean).join(', '), timing: '' };
}

/** A batch for people; `failures` are the first of its failures. */
export function describeBatch(status: BatchStatus, failures: readonly BatchItem[], now = new Date()): string {
  const { waitingToStart, open, startedAt, lastEndedAt, ended, cancelled, sealed, maxOpen, hold, cutOff } = status;
  const batchId = safeLine(status.batchId);
  const state =
    cutOff !== undefined
      ? `${safeLine(cutOff)}: it has no result, and nothing more is started`
      : `${ended ? 'ended' : hold ? 'held' : 'running'}${cancelled ? ', cancelled' : ''}`;
  const lines: [name: string, text: string][] = [
    ['batch', `${batchId}, ${state}`],
    ['held', cutOff === undefined && hold ? holdText(batchId, hold, now) : ''],
    ['items', `${doneText(status)}${cutOff === undefined ? '' : ', as it knew at its end'}`],
    ['cut off', cutOff === undefined ? '' : `${open} were open, ${waitingToStart} not started; ${runningText(status)}`],
    ['open', ended || cutOff !== undefined ? '' : `${openText(status)}, at most ${maxOpen} at a time`],
    ['not started', ended || cutOff !== undefined ? '' : `${waitingToStart}${sealed ? '' : '; more items can come'}`],
    ['started', clock(startedAt, now)],
    ['ended', ended && lastEndedAt !== undefined ? clock(lastEndedAt, now) : ''],
  ];
  return [...rowsOf(lines), ...failureLines(status, failures)].join('\n');
}

/** A batch that has ended, for people. */
export function describeBatchResult(batchId: string, { items, ...counts }: FollowUpBatchResult): string {
  const linked = items.flatMap(({ workflowId, prLink }) =>
    prLink ? `${safeLine(workflowId)}  ${safeLine(prLink)}` : [],
  );
  return [
    `${safeLine(batchId)}: ${doneText(counts)}${counts.cancelled === true ? ', cancelled' : ''}`,
    // A long batch has more than its result.
    ...listed(linked, counts.truncated && linked.length > 0 ? Infinity : linked.length, 'pull requests'),
    ...failureLines(counts, items.filter(isFailure)),
  ].join('\n');
}

/** What `--dry-run` shows. Clock times are local. */
export function describePreview(preview: BatchPreview, now = new Date()): string {
  const { batchId, total, alreadyStarted, inputDiffers, projects, earliestEndAt } = preview;
  const before = inputDiffers
    ? 'with different input: it is refused'
    : 'with this input: nothing is sent a second time';
  const rows: Row[] = [
    ['batch', `${safeLine(batchId)}, ${total} ${total === 1 ? 'item' : 'items'}; nothing is sent (--dry-run)`],
    ['started', alreadyStarted ? `the id was used before, ${before}` : ''],
    ...(projects.some(({ toSend }) => toSend > 0) ? sendRows(projects, earliestEndAt, now) : []),
  ];
  return rowsOf(rows).join('\n');
}

function sendRows(projects: readonly ProjectPreview[], earliestEndAt: string | undefined, now: Date): Row[] {
  const end = earliestEndAt === undefined ? 'not known' : `${clock(earliestEndAt, now)} at the earliest`;
  return [...projects.map((project): Row => ['project', projectText(project, now)]), ['end of sends', end]];
}

function projectText(project: ProjectPreview, now: Date): string {
  const { projectId, toSend, limit, windowMs, freeSlots, waiting, blocked, earliestEndAt } = project;
  const until = blocked?.until === undefined ? '' : ` until ${clock(blocked.until, now)}`;
  const note = blocked?.note === undefined ? '' : ` (${blocked.note})`;
  const parts = [
    `${projectId}: ${toSend} to send`,
    `${freeSlots} of ${limit} slots in ${formatDuration(windowMs)} free`,
    waiting > 0 ? `${waiting} wait before them` : '',
    blocked ? `blocked: ${blocked.reasons.join(', ')}${until}${note}` : '',
    earliestEndAt === undefined ? '' : `sent ${clock(earliestEndAt, now)} at the earliest`,
  ];
  return safeLine(parts.filter(Boolean).join(', '));
}

type Row = [name: string, text: string];

/** `5 of 20 done: 4 completed, 1 without a result (DeliveryUnknown 1)` */
function doneText(counts: Omit<Counts, 'truncated' | 'cancelled'>): string {
  const { total, completed, archived, failed, errors, errorsByType } = counts;
  const types = Object.entries(errorsByType).flatMap(([type, count]) =>
    count > 0 ? `${safeLine(type)} ${count}` : [],
  );
  const parts = [
    completed > 0 ? `${completed} completed` : '',
    archived > 0 ? `${archived} archived` : '',
    failed > 0 ? `${failed} failed` : '',
    errors > 0 ? `${errors} without a result (${types.join(', ')})` : '',
  ].filter(Boolean);
  const done = completed + archived + failed + errors;
  return `${done} of ${total} done${parts.length > 0 ? `: ${parts.join(', ')}` : ''}`;
}

function openText({ open, waitingForBudget = 0 }: BatchStatus): string {
  return `${open} open${waitingForBudget > 0 ? `, ${waitingForBudget} of them waiting for budget` : ''}`;
}

function runningText({ batchId, stillRunning }: BatchStatus): string {
  const list = `: follow-up list --batch ${safeLine(batchId)}`;
  if (stillRunning === undefined) return `some may still run${list}`;
  return `${stillRunning} ${stillRunning === 1 ? 'follow-up' : 'follow-ups'} still running${stillRunning > 0 ? list : ''}`;
}

function holdText(batchId: string, { at, reason }: BatchHold, now: Date): string {
  const [id, since] = [safeLine(batchId), clock(at, now)];
  return `since ${since}: ${safeLine(reason)}; follow-up batch continue ${id}, or follow-up batch cancel ${id}`;
}

/** The workflow id is what other commands accept, and identifies the item. */
function failureLines({ failed, errors }: Pick<Counts, 'failed' | 'errors'>, failures: readonly BatchItem[]): string[] {
  const lines = failures.map(({ workflowId, error }) => {
    const reason = error ? `${error.type}: ${error.message} (delivered: ${error.delivered})` : 'the agent job failed';
    return `${safeLine(workflowId)}  ${safeLine(reason)}`;
  });
  return listed(lines, failed + errors, 'failures');
}

function listed(lines: readonly string[], total: number, what: string): string[] {
  const shown = lines.slice(0, SHOWN).map((line) => `  ${line}`);
  const more = total - shown.length;
  return more > 0
    ? [...shown, `  and ${Number.isFinite(more) ? `${more} ` : ''}more ${what}; --json has them all`]
    : shown;
}
