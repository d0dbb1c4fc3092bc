import type { SendFollowUpResult, SendOutcomeResult } from '../../activities/index.js';
import {
  FailureType,
  formatDuration,
  type FailureDetails,
  type FollowUpState as ShownState,
  type WaitReason,
} from '../../contract/index.js';
import { describeIssues } from '../../contract/validation.js';
import { describeBudgetWait } from '../../follow-up/details.js';
import { isUndelivered } from '../../budget/index.js';
import { backoffMs, jittered, nextInterval } from '../../follow-up/intervals.js';
import { isAtWork } from '../../follow-up/job-state.js';
import { isSameMessage } from '../../follow-up/message-tag.js';
import { mayReplaceAnotherRun, type FollowUpContext } from './context.js';
import { endSent, endUnsent } from './endings.js';

/** A job that the service does not know is asked for three times before it counts as missing. */
const NOT_FOUND_TRIES = 3;
const NOT_FOUND_RETRY_MS = 1_000;

/** While the job is at work for somebody else, the place in the queue is confirmed that often. */
const HOLD_EVERY_MS = 10 * 60_000;

/** Last ask of a follow-up that gives up: tries until the gate itself answers. */
const LAST_ASK_TRIES = 5;

/**
 * Everything before the send, and the send: baseline, ask, wait, ask again. Ends in phase `polling` or `reconciling`.
 *
 * @throws the failure that ends the follow-up
 */
export async function askAndSend(context: FollowUpContext): Promise<void> {
  const { state } = context;
  while (state.phase === 'asking') {
    if (context.continueAsNewIsDue()) await context.continueAsNew();
    if (context.cancellation) return giveUp(context, FailureType.Cancelled, 'Cancelled before the message was sent');
    if (budgetWaitLeftMs(context) <= 0) {
      const message = `The message could not be sent within ${formatDuration(context.settings.budgetWaitTimeoutMs)}`;
      return giveUp(context, FailureType.BudgetWaitTimeout, message);
    }
    const hold = await takeBaseline(context);
    if (hold === undefined) continue;
    const keptPlace = Date.now() - (state.heldAtMs ?? -Infinity) < HOLD_EVERY_MS;
    if (hold && keptPlace && !context.woken) {
      await waitForJob(context);
      continue;
    }
    await ask(context, hold);
  }
}

/**
 * Looks at the job before each ask. Answers whether the ask may only keep the place, or `undefined` after a wait that
 * the job made necessary.
 */
async function takeBaseline(context: FollowUpContext): Promise<boolean | undefined> {
  const { settings, state } = context;
  const read = await context.getJob('baseline', true);
  if (read.kind === 'job') {
    state.failures = 0;
    state.notFoundInARow = 0;
    state.baseline = read.job;
    if (read.job.status === 'archived') {
      await giveUp(context, FailureType.JobArchived, 'The job was archived before the message was sent');
      return undefined;
    }
    const hold = settings.whenActive === 'wait' && isAtWork(read.job);
    if (!hold) state.intervalMs = settings.poll.initialIntervalMs;
    return hold;
  }
  if (read.kind === 'notFound') {
    state.notFoundInARow += 1;
    if (state.notFoundInARow >= NOT_FOUND_TRIES) {
      await giveUp(context, FailureType.JobNotFound, `The service does not know the job: ${read.message}`);
      return undefined;
    }
    context.show('sending');
    await context.sleep(NOT_FOUND_RETRY_MS, 'job not found, look again');
    return undefined;
  }
  if (read.reason === 'not-served') {
    const issues = [{ field: 'projectId', message: read.message }];
    await giveUp(context, FailureType.InvalidInput, `Invalid input: ${describeIssues(issues)}`, { issues });
    return undefined;
  }
  state.failures += 1;
  state.wait = { reason: state.keyRefusedAtMs === undefined ? 'service' : 'credentials', position: 0 };
  context.show('blocked');
  const waitMs = Math.max(backoffMs(state.failures), read.retryAfterMs ?? 0);
  await pause(context, waitMs, `${read.message}; look again in ${formatDuration(waitMs)}`);
  return undefined;
}

async function ask(context: FollowUpContext, hold: boolean): Promise<void> {
  if (context.state.shown.state === undefined) context.show(hold ? 'waiting-for-job' : 'sending');
  const answer = await context.send(hold ? 'hold' : undefined);
  if (hold && answer.kind === 'wait') {
    context.state.heldAtMs = Date.now();
    return waitForJob(context);
  }
  await handle(context, answer);
}

async function handle(context: FollowUpContext, answer: SendFollowUpResult): Promise<void> {
  await checkMessage(context, answer);
  switch (answer.kind) {
    case 'outcome':
      return handleOutcome(context, answer);
    case 'wait':
      return waitForBudget(context, answer);
    case 'alreadyGranted':
      return doubtEarlierSend(context, answer);
    case 'stale':
      return context.sleep(context.staleBackoffMs(), 'ask was overtaken, ask again');
    case 'closed':
      throw await endUnsent(context, FailureType.Closed, 'The budget has already seen this follow-up end', true);
  }
}

/**
 * Where the gate has recorded a send for this workflow id, looks whether it was of this message. An earlier start with
 * the same key may have had another prompt.
 *
 * @throws the failure that ends the follow-up, of whose message nothing was sent
 */
async function checkMessage(context: FollowUpContext, answer: SendFollowUpResult): Promise<void> {
  const tag = 'messageTag' in answer ? answer.messageTag : undefined;
  if (tag === undefined || (answer.kind === 'outcome' && isUndelivered(answer.outcome))) return;
  if (!isSameMessage(tag, context.messageTag())) {
    const message = 'The key was used for another message, and this one was not sent: use a key of its own';
    throw await endUnsent(context, FailureType.Closed, message, true);
  }
  context.state.recordedTag = tag;
}

/** What the end of a send means for the follow-up: another phase, another try, or its own end. */
export async function handleOutcome(context: FollowUpContext, answer: SendOutcomeResult): Promise<void> {
  const { settings, state } = context;
  if (answer.grantedAtMs !== undefined) state.grantedAtMs = answer.grantedAtMs;
  if (answer.lastJobSeen) state.lastTurn = answer.lastJobSeen;
  if (answer.message !== undefined) context.noteError(answer.message);
  delete state.wait;
  switch (answer.outcome) {
    case 'sent':
      if (answer.job) {
        state.job = answer.job;
        state.jobSeenAtMs = Date.now();
      }
      state.delivery = 'sent';
      state.sentAtMs = answer.recordedAtMs ?? Date.now();
      state.phase = 'polling';
      return;
    case 'unknown':
      state.reconcileUntilMs = Math.max(
        Date.now() + answer.mayArriveForMs,
        (state.grantedAtMs ?? Date.now()) + settings.settleTimeMs,
      );
      state.phase = 'reconciling';
      return;
    case 'rejected': {
      const type = answer.statusCode === 404 ? FailureType.JobNotFound : FailureType.MessageRejected;
      const words = answer.message ?? 'without a word';
      throw await endSent(
        context,
        type,
        `The service refused the message: ${words}`,
        {
          delivered: state.earlierSendUnknown ? 'unknown' : 'no',
          ...(answer.statusCode !== undefined && { statusCode: answer.statusCode }),
          ...(answer.message !== undefined && { serviceMessage: answer.message }),
        },
        'rejected',
      );
    }
    case 'notSent':
    case 'limited':
    case 'unauthorized': {
      context.beginNextSend();
      state.notSentInARow = answer.outcome === 'notSent' ? (state.notSentInARow ?? 0) + 1 : 0;
      // The gate paces what the service refused; here only what never reached it is paced.
      const waitMs = state.notSentInARow > 0 ? jittered(backoffMs(state.notSentInARow), Math.random()) : 0;
      if (waitMs > 0) await pause(context, waitMs, `not sent; try again in ${formatDuration(waitMs)}`);
      return;
    }
  }
}

/** An earlier attempt was granted and its outcome is not known: it may be alive until its lease and drain are over. */
function doubtEarlierSend(
  context: FollowUpContext,
  answer: Extract<SendFollowUpResult, { kind: 'alreadyGranted' }>,
): void {
  const { settings, state } = context;
  if (answer.lastJobSeen) state.lastTurn = answer.lastJobSeen;
  const grantedAtMs = answer.grantedAtMs ?? Date.now();
  state.grantedAtMs = grantedAtMs;
  state.reconcileUntilMs = Math.max(
    Date.now() + answer.leaseLeftMs + answer.drainLeftMs,
    grantedAtMs + settings.settleTimeMs,
  );
  state.askAgainFirst = true;
  state.phase = 'reconciling';
}

async function waitForBudget(
  context: FollowUpContext,
  { reason, waitMs, position, etaMs }: Extract<SendFollowUpResult, { kind: 'wait' }>,
): Promise<void> {
  const nowMs = Date.now();
  context.state.wait = {
    reason,
    position,
    ...(etaMs !== null && { expectedSendAtMs: nowMs + etaMs }),
  };
  context.show(shownStateOf(reason));
  await pause(context, waitMs, describeBudgetWait(reason, position, etaMs, nowMs), () => context.woken);
}

/** Somebody else's turn is under way: look at the job again, as a poll would. */
async function waitForJob(context: FollowUpContext): Promise<void> {
  const { settings, state } = context;
  state.wait = { reason: 'job-busy', position: 0 };
  context.show('waiting-for-job');
  const waitMs = jittered(state.intervalMs, Math.random());
  state.intervalMs = nextInterval(state.intervalMs, settings.poll);
  context.woken = false;
  await pause(context, waitMs, `job is active; look again in ${formatDuration(waitMs)}`, () => context.woken);
}

/** Sleeps, but not beyond `budgetWaitTimeout`, and not when told to look now. */
async function pause(
  context: FollowUpContext,
  ms: number,
  summary: string,
  until: () => boolean = () => false,
): Promise<void> {
  await context.sleep(Math.min(ms, budgetWaitLeftMs(context)), summary, () => context.state.pollNow || until());
  context.state.pollNow = false;
}

function budgetWaitLeftMs({ settings, state }: FollowUpContext): number {
  return state.firstRunStartedAtMs + settings.budgetWaitTimeoutMs - Date.now();
}

/**
 * Ends an unsent follow-up, after proof that it is one: where the gate's latest answer does not prove it, the follow-up
 * leaves by an ask. If the answer is that something was granted, the follow-up goes on from there.
 */
async function giveUp(
  context: FollowUpContext,
  type: FailureType,
  message: string,
  details: Pick<FailureDetails, 'issues'> = {},
): Promise<void> {
  const { state } = context;
  if (mayReplaceAnotherRun()) state.provenNotSent = false;
  for (let tries = 0; !state.provenNotSent && tries < LAST_ASK_TRIES; tries++) {
    const answer = await context.send('withdraw');
    if (answer.kind === 'outcome' || answer.kind === 'alreadyGranted') {
      await handle(context, answer);
      if (state.phase !== 'asking') return;
    } else if (answer.kind === 'wait' && isWithoutGate(answer.reason)) {
      break;
    } else if (answer.kind === 'closed') {
      // It has left, and need not say so again.
      state.knownToGate = false;
    } else if (!state.provenNotSent) {
      await context.sleep(answer.kind === 'wait' ? answer.waitMs : context.staleBackoffMs(), 'ask once more');
    }
  }
  throw await endUnsent(context, type, message, state.provenNotSent, details);
}

/** Nobody answers for the gate, and that may go on for long. */
export function isWithoutGate(reason: WaitReason): boolean {
  return reason === 'gate-stopped' || reason === 'budget-silent';
}

function shownStateOf(reason: WaitReason): ShownState {
  if (reason === 'slot') return 'waiting-for-budget';
  return reason === 'job-busy' ? 'waiting-for-job' : 'blocked';
}
