import { setTimeout as sleep } from 'node:timers/promises';
import { describeBatch, describeListed } from '../batch/batch-details.js';
import {
  type BatchHandle,
  type BatchPreview,
  type FollowUpClient,
  type ProjectPreview,
  type RetryChoice,
  type RetryPlan,
  type StartedBatch,
  TemporalUnreachableError,
  WorkerUnavailableError,
} from '../client/index.js';
import {
  type BatchItem,
  batchItemKey,
  type BatchStatus,
  type FollowUpBatchResult,
  followUpBatchWorkflowId,
  followUpWorkflowId,
  type ListedItems,
} from '../contract/index.js';
import { safeLine } from '../node/terminal-text.js';
import { type BatchInputOptions, readBatchInput } from './batch-file.js';
import { describeStanding, summariseBudgetUpdate } from './budget-commands.js';
import { type Cli, ExitCode, interruptible, isLive, type Output, UsageError } from './cli.js';
import { clock, counted, formatTrouble, plain, rowsOf, toLines, toSummary } from './lines.js';
import { type ProgressText, showRow } from './progress-rows.js';
import { sayWhenUnattended, withHint, withTemporal } from './session.js';

/** Most failures and pull requests in a list; `--json` has all. */
const SHOWN = 20;

/** `follow-up batch run` */
export async function runBatch(
  cli: Cli,
  file: string | undefined,
  { wait, dryRun, ...options }: BatchInputOptions & { wait: boolean; dryRun?: boolean },
): Promise<ExitCode> {
  const { output } = cli;
  const { input, lines } = await readBatchInput(cli.io, file, options);
  const items = input.items.map(({ projectId, jobId }, index) => {
    const workflowId = followUpWorkflowId({ projectId, jobId, key: batchItemKey(input.id, index) });
    return { index, line: lines[index], projectId, jobId, workflowId };
  });
  return withTemporal(cli, async (session) => {
    if (dryRun) {
      const preview = await session.followUps.planBatch(input);
      output.data({ ...preview, items }, describePreview(preview));
      return ExitCode.ok;
    }
    return interruptible(cli, async (signal) => {
      const hint = `the same command with --id ${input.id} continues it`;
      const [batch] = await Promise.all([
        session.followUps.startBatch(input, { signal }).catch((error: unknown) => {
          throw withHint(error, followUpBatchWorkflowId({ batchId: input.id }), hint, true);
        }),
        sayWhenUnattended(session, output),
      ]);
      return showStarted(cli, batch, { wait, signal, data: { total: items.length, items } });
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
      const plan = await retried.planRetry({ only, signal });
      for (const note of describeLeftOut(plan)) output.note(note);
      if (plan.unknown > 0 && !yes) {
        const doubt = `for ${counted(plan.unknown, 'item')} it is unknown whether the message was delivered`;
        const ways = '--yes sends them again, although they may be delivered twice; --only failed skips them';
        throw new UsageError(`${doubt}: ${ways}`);
      }
      const batch = await retried.retry(plan, { signal });
      return showStarted(cli, batch, { wait, signal, data: { retryOf: plan.retryOf } });
    }),
  );
}

/** Says which items a retry leaves out, and why. */
export function describeLeftOut({
  delivered,
  open,
  neverStarted,
}: Pick<RetryPlan, 'delivered' | 'open' | 'neverStarted'>): string[] {
  const notes = [];
  if (delivered > 0) notes.push(`${counted(delivered, 'item')} delivered before: not sent again`);
  if (open > 0) notes.push(`${counted(open, 'item')} still running: not sent again`);
  if (neverStarted === 1) notes.push('the last item was never started; to send it, start a new batch');
  if (neverStarted > 1) {
    notes.push(`the last ${neverStarted} items were never started; to send them, start a new batch`);
  }
  return notes;
}

/** Reports the start of a batch, then waits for it or prints its id. `data` is added to the JSON document. */
async function showStarted(
  cli: Cli,
  batch: StartedBatch,
  { wait, signal, data }: { wait: boolean; signal: AbortSignal; data: Record<string, unknown> },
): Promise<ExitCode> {
  const { batchId, workflowId, alreadyStarted } = batch;
  cli.output.note(
    alreadyStarted ? `batch ${batchId} was started before: nothing is sent a second time` : `started ${workflowId}`,
  );
  if (wait) return awaitBatch(cli, batch, signal, { ...data, alreadyStarted });
  cli.output.data({ batchId, workflowId, ...data, alreadyStarted }, batchId);
  return ExitCode.ok;
}

/** `follow-up batch status` */
export async function showBatch(cli: Cli, batchId: string, { watch }: { watch?: boolean }): Promise<ExitCode> {
  const { output } = cli;
  return withTemporal(cli, async ({ followUps }) => {
    const batch = followUps.batch(batchId);
    if (watch === true) {
      // A wrong address shows at once, while the wait outlasts an outage of minutes.
      await batch.describe();
      return interruptible(cli, (signal) => awaitBatch(cli, batch, signal));
    }
    const status = await batch.status().catch((error: unknown) => {
      if (!(error instanceof WorkerUnavailableError)) throw error;
      return error;
    });
    if (status instanceof WorkerUnavailableError) return showListed(output, batch, status);
    const failureCount = Math.min(SHOWN, status.failed + status.errors);
    const items: BatchItem[] = [];
    const failures: BatchItem[] = [];
    if (output.json || failureCount > 0) {
      for await (const item of batch.list()) {
        if (output.json) items.push(item);
        else if (isFailure(item) && failures.push(item) === failureCount) break;
      }
    }
    const isOver = status.ended || status.cutOff !== undefined;
    const troubles = isOver ? [] : await batch.troubles();
    const listed = isOver ? status.listed : await batch.listed({ isOpen: true });
    const waits = isOver ? [] : await describeWaits(followUps, listed ?? []);
    const description = describeBatch(status, failures, clock);
    // What the projects wait for comes before "no action is needed".
    const nextSteps = waits.some(({ nextSteps }) => nextSteps.length > 0) ? [] : description.nextSteps;
    const waiting = waits.map(({ what, nextSteps }) =>
      nextSteps.length > 0 ? `${what}; to do: ${nextSteps.join('; ')}` : what,
    );
    const lists = [['Waiting', waiting] as const, ...(description.lists ?? [])];
    const text = [...toLines({ ...description, nextSteps, lists }), ...troubles.map(formatTrouble)];
    const { workflowId } = batch;
    output.data(
      { workflowId, ...status, listed, ...(troubles.length > 0 && { troubles }), items: items.map(toRow) },
      text.join('\n'),
    );
    return ExitCode.ok;
  });
}

/** Shows what Temporal knows of a batch that does not answer. */
async function showListed(output: Output, batch: BatchHandle, { reason }: WorkerUnavailableError): Promise<ExitCode> {
  const { batchId, workflowId } = batch;
  const [listed, troubles] = await Promise.all([batch.listed(), batch.troubles()]);
  const lines = rowsOf(listed.map(describeListed)).map(plain);
  const text = [`batch ${batchId} does not answer: ${safeLine(reason)}; its items, as Temporal lists them`, ...lines];
  output.data(
    { workflowId, statusUnavailable: reason, listed, troubles },
    [...text, ...troubles.map(formatTrouble)].join('\n'),
  );
  return ExitCode.error;
}

/** What open items wait for, and what to do, by project. */
async function describeWaits(followUps: FollowUpClient, listed: readonly ListedItems[]) {
  const waiting = listed.filter(({ state }) => state === 'waiting-for-budget' || state === 'blocked');
  const projects = [...new Set(waiting.map(({ projectId }) => projectId))].slice(0, SHOWN);
  const waits = projects.map(async (projectId) => {
    const counts = waiting
      .filter((each) => each.projectId === projectId)
      .map(({ state, count }) => `${count} ${state}`);
    const { budget, nextSteps } = describeStanding(projectId, await followUps.budget(projectId).look());
    return { what: `project ${projectId}: ${counts.join(', ')}; its budget: ${budget}`, nextSteps };
  });
  return Promise.all(waits);
}

/** `follow-up batch continue` */
export async function continueBatch(cli: Cli, batchId: string): Promise<void> {
  await withTemporal(cli, async ({ followUps }) => {
    const batch = followUps.batch(batchId);
    const hold = await batch.continue();
    const what = hold ? `it was held: ${safeLine(hold.reason)}` : 'its canary has not ended';
    cli.output.data({ batchId, workflowId: batch.workflowId, hold }, `batch ${batchId} continues; ${what}`);
  });
}

/** `follow-up batch cancel` */
export async function cancelBatch(cli: Cli, batchId: string): Promise<void> {
  await withTemporal(cli, async (session) => {
    const batch = session.followUps.batch(batchId);
    await batch.cancel();
    cli.output.data(
      { batchId, workflowId: batch.workflowId, cancelRequested: true },
      `asked batch ${batchId} to end; to watch it, run: follow-up batch status ${batchId} --watch`,
    );
    await sayWhenUnattended(session, cli.output);
  });
}

/** A live display may change every second. Printed as lines, a batch of thousands would fill the log. */
const LIVE_INTERVAL_MS = 1_000;
const LINE_INTERVAL_MS = 5_000;

/** Shows the progress of a batch until it ends, even while it is held, then its result. */
async function awaitBatch({ output }: Cli, batch: BatchHandle, signal: AbortSignal, data = {}): Promise<ExitCode> {
  const { batchId, workflowId } = batch;
  const work = async (report: (progress: ProgressText) => void) => {
    const ended = new AbortController();
    const end = batch.result({ signal }).finally(() => ended.abort());
    while (!ended.signal.aborted) {
      // Only the result shows how it ended. A status after the end is outdated.
      const progress = await Promise.race([look(batch), end]);
      if (typeof progress === 'string') report({ headline: progress, timing: '' });
      const intervalMs = isLive(output.stderr) ? LIVE_INTERVAL_MS : LINE_INTERVAL_MS;
      await sleep(intervalMs, undefined, { signal: ended.signal }).catch(() => undefined);
    }
    return end;
  };
  const row = { label: `batch ${batchId}`, work, summarise: () => 'ended' };
  const result = await showRow(output, row).catch((error: unknown) => {
    throw withHint(error, workflowId, `the batch continues. To see it, run: follow-up batch status ${batchId}`);
  });
  const { items: first, truncated = false, ...counts } = result;
  const items = truncated ? [] : first;
  if (truncated && output.json) for await (const item of batch.list()) items.push(item);
  output.data(
    { batchId, workflowId, ...data, ...counts, items: items.map(toRow) },
    describeBatchResult(batchId, result),
  );
  return exitCodeOfBatch(result);
}

async function look(batch: BatchHandle): Promise<string> {
  try {
    return summariseBatch(await batch.status());
  } catch (error) {
    const isPassing = error instanceof WorkerUnavailableError || error instanceof TemporalUnreachableError;
    return `progress unavailable: ${isPassing ? error.reason : String(error)}`;
  }
}

/** Describes a batch in one line for a live display. */
export function summariseBatch(status: BatchStatus): string {
  const description = describeBatch(status, [], clock);
  return [toSummary(description), ...(status.hold ? description.nextSteps.map(plain) : [])].join('; ');
}

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

export function exitCodeOfBatch({ failed, errors, cancelled }: FollowUpBatchResult): ExitCode {
  if (errors > 0 || cancelled === true) return ExitCode.followUpFailed;
  return failed > 0 ? ExitCode.jobFailed : ExitCode.ok;
}

/** Whether an item needs attention: its agent job failed, or it ended without a result. */
function isFailure({ status, error }: BatchItem): boolean {
  return status === 'failed' || error !== undefined;
}

export function describeBatchResult(batchId: string, { items, ...counts }: FollowUpBatchResult): string {
  const isCancelled = counts.cancelled === true;
  const status = { batchId, ...counts, cancelled: isCancelled, ended: true, sealed: true };
  const { lists = [], ...description } = describeBatch(status, items.filter(isFailure).slice(0, SHOWN), clock);
  // A failed job may still show the pull request of an earlier turn.
  const linked = items.filter((item) => item.prLink && !isFailure(item));
  const links = linked.slice(0, SHOWN).map(({ workflowId, prLink }) => `${workflowId} ${prLink ?? ''}`);
  const hidden = linked.length - links.length;
  // A long batch has more items than its result.
  const isLonger = counts.truncated === true && links.length > 0;
  if (hidden > 0 || isLonger) {
    links.push(`and ${isLonger ? '' : `${hidden} `}more: follow-up batch status ${batchId} --json`);
  }
  return toLines({ ...description, lists: [['Pull requests', links], ...lists] }).join('\n');
}

/** Describes a preview for `--dry-run`, in local time. */
export function describePreview(preview: BatchPreview): string {
  const { batchId, total, alreadyStarted, inputDiffers, projects } = preview;
  const before = inputDiffers
    ? 'with different input: it is refused'
    : 'with this input: nothing is sent a second time';
  const lineOf = ({ projectId, toSend, ...budget }: ProjectPreview) =>
    `${safeLine(projectId)}: ${toSend} to send; ${summariseBudgetUpdate(projectId, budget)}`;
  return rowsOf([
    ['batch', `${safeLine(batchId)}, ${counted(total, 'item')}; nothing is sent (--dry-run)`],
    ['started', alreadyStarted && `the id was used before, ${before}`],
    ...(alreadyStarted ? [] : projects.map((project) => ['project', lineOf(project)] as const)),
  ]).join('\n');
}
