import { defined, iso } from '../common/index.js';
import { type AgentJob, type FollowUpResult, isTerminalStatus, type SendOutcome } from '../contract/index.js';
import { type EarlierSend, type Granted, isAtWork } from '../protocol/index.js';
import { standingOf } from './display.js';
import { jobNotFound, keyUsed, messageRejected } from './failed.js';
import type { SlotWaitEnd } from './get-slot.js';
import { NOT_FOUND_MS, type WatchRequest } from './judge.js';
import { type FollowUpPort, grantName, reasonAgainst, type SendResult } from './port.js';
import type { StepContext } from './step-context.js';
import { LONGEST_BACKOFF_MS } from './waits.js';

/** A message that was delivered, or may have been. */
export interface Delivery extends Pick<WatchRequest, 'baseline' | 'arrivedByMs' | 'runId'> {
  kind: FollowUpResult['delivery'];
  sentAtMs: number;
  /** Whether the service's response to the message showed the job at work. */
  observedActive: boolean;
}

/** What became of the message after one wait for a slot. */
interface DeliverResult {
  result: SendResult;
  /** Missing if the message was certainly not delivered. */
  delivery?: Delivery;
}

/** Longest wait after a refused read prevented a send. The budget decides about a longer one, which an operator can end. */
const LONGEST_REFUSED_MS = 60_000;
/**
 * A second 404 within this time shows that the job does not exist. The time is long enough for {@link NOT_FOUND_MS} and for
 * a slot.
 */
const LONGEST_MISSING_MS = 300_000;

/**
 * Sends the message, or takes over an earlier send of it. Returns `foreign` if the grant belongs to another run.
 *
 * @throws Failed
 */
export async function deliver(
  context: StepContext,
  waitEnd: SlotWaitEnd,
  undelivered: UndeliveredSends,
): Promise<DeliverResult | 'foreign'> {
  const { port, doubt, waits } = context;
  const { reply } = waitEnd;
  const isGranted = reply.kind === 'granted';
  const result = isGranted ? await useGrant(context, reply, waitEnd, undelivered) : takeOver(context, reply);
  const { outcome } = result;
  if (outcome === 'foreign') {
    doubt.raise();
    return 'foreign';
  }
  if (outcome !== 'notSent') waits.noteProgress();
  const nowMs = port.nowMs();
  if (isGranted) await reportOutcome(port, reply, outcome, result);
  if (outcome === 'rejected') throw messageRejected(doubt, result);
  if (undelivered.noteMissing(outcome, nowMs)) throw jobNotFound(result.message ?? 'HTTP 404', doubt.delivered());
  return outcome === 'sent' || outcome === 'unknown'
    ? { result, delivery: deliveryOf(result, reply, nowMs) }
    : { result };
}

/** The sends that did not deliver the message: what they say of the job, and how long the next send waits. */
export class UndeliveredSends {
  #isReadRefused = false;
  #missingSinceMs: number | undefined;

  constructor(private readonly context: StepContext) {}

  /** Whether the last send was not made because the service refused a read of the job. */
  get isReadRefused(): boolean {
    return this.#isReadRefused;
  }

  /** Notes a 404. Returns whether the job does not exist: only a second 404 soon after the first shows that. */
  noteMissing(outcome: SendOutcome, nowMs: number): boolean {
    const isMissing = outcome === 'notFound';
    const isSoon = this.#missingSinceMs !== undefined && nowMs - this.#missingSinceMs <= LONGEST_MISSING_MS;
    if (!isMissing || !isSoon) this.#missingSinceMs = isMissing ? nowMs : undefined;
    return this.#missingSinceMs !== undefined && nowMs - this.#missingSinceMs >= NOT_FOUND_MS;
  }

  /** Waits before the next send, and shows why. After most outcomes only the budget makes it wait. */
  async waitForNext({ outcome, refusal, message }: SendResult): Promise<void> {
    const { port, display, waits } = this.context;
    display.noteError(message);
    const isNotSent = outcome === 'notSent';
    this.#isReadRefused = isNotSent && refusal !== undefined;
    if (!isNotSent && outcome !== 'notFound') return;
    const longestMs = refusal === undefined ? LONGEST_BACKOFF_MS : LONGEST_REFUSED_MS;
    const waitMs = isNotSent ? waits.backoffMs(longestMs) : NOT_FOUND_MS;
    const standing = standingOf(refusal ?? (isNotSent ? 'slot' : 'service'));
    display.show(standing, { nextTryAt: iso(port.nowMs() + waitMs) });
    await waits.sleep(waitMs);
  }
}

/** Sends the message. If the service refused the last read, this reads the job first, and sends only if it takes messages. */
async function useGrant(
  context: StepContext,
  grant: Granted,
  { jobBefore }: SlotWaitEnd,
  { isReadRefused }: UndeliveredSends,
): Promise<SendResult> {
  if (jobBefore || !isReadRefused) return send(context, grant, jobBefore);
  // The service refused the last read, so the job is read before a send is scheduled with its prompt.
  const { settings, port, waits } = context;
  const { projectId, jobId, whenActive } = settings;
  const read = await port.readJob({ projectId, jobId, runId: grant.runId });
  if (read.kind === 'foreign') return { grant: grantName(grant), outcome: 'foreign' };
  const job = read.kind === 'job' ? read.job : undefined;
  const reason = read.kind === 'job' ? reasonAgainst(read.job, whenActive) : read.message;
  const message = waits.isCancelled ? 'cancelled' : reason;
  if (message === undefined) return send(context, grant, job);
  // If this task is undone, the next read may show a job that accepts messages.
  await port.nextTask();
  return { grant: grantName(grant), outcome: 'notSent', message, ...(read.kind === 'failed' && read.refused) };
}

async function send(
  { settings, port, display, waits }: StepContext,
  grant: Granted,
  jobBefore: AgentJob | undefined,
): Promise<SendResult> {
  const { projectId, jobId, prompt, whenActive } = settings;
  const { runId, sendNumber, grantedAtMs, leaseMs } = grant;
  // A decision covers one send only.
  waits.decision = undefined;
  const request = { grant: { runId, sendNumber, grantedAtMs, leaseMs }, ...(jobBefore && { jobBefore }) };
  const beforeMs = display.lastSendAtMs;
  // Shown before the send, because a new budget finds possible sends by their state and time. A run that takes the send
  // over shows the same time, so that it counts once.
  display.lastSendAtMs = grantedAtMs;
  display.show({ state: 'sending' });
  const sent = await port.sendMessage({ projectId, jobId, prompt, whenActive, ...request });
  if (sent.outcome === 'notSent') display.lastSendAtMs = beforeMs;
  return { ...(jobBefore && { jobBefore }), ...sent };
}

/** Names the run of the grant, because a reset run repeats its predecessor's reports. */
async function reportOutcome(
  port: FollowUpPort,
  { runId, sendNumber }: Granted,
  outcome: SendOutcome,
  { refusal, statusCode, retryAfterMs }: SendResult,
): Promise<void> {
  const report = { kind: 'outcome', runId, sendNumber, outcome, atMs: port.nowMs() } as const;
  await port.reportToBudget({ ...report, ...defined({ refusal, statusCode, retryAfterMs }) });
}

/** @throws Failed if this run cannot learn what became of the send */
function takeOver({ display, doubt }: StepContext, reply: EarlierSend): SendResult {
  const { verdict, sendNumber, outcome, grantedAtMs, listedAtMs } = reply;
  // The outcomes of the sends before it are not known.
  if (sendNumber > 1 || listedAtMs !== undefined) doubt.raise({ mayHaveResent: true });
  else if (verdict === 'undelivered') doubt.ruleOut(reply);
  if (verdict === 'superseded' || verdict === 'forgotten') throw keyUsed(verdict, outcome);
  const neverBegan = verdict === 'undelivered' && sendNumber === 1 && outcome === 'notSent';
  if (!neverBegan) display.lastSendAtMs = listedAtMs ?? grantedAtMs;
  const message = 'an earlier run may have sent it, and its outcome was not reported';
  return outcome === null || outcome === 'unknown'
    ? { grant: '', outcome: 'unknown', message }
    : { grant: '', outcome };
}

/** A delivery that is certain or possible. The job before another run's send is not known. */
function deliveryOf(
  { outcome, jobBefore = {}, job }: SendResult,
  reply: SlotWaitEnd['reply'],
  nowMs: number,
): Delivery {
  const isGranted = reply.kind === 'granted';
  const outcomeAtMs = isGranted ? nowMs : reply.outcomeAtMs;
  const isSent = outcome === 'sent';
  return {
    kind: isSent ? 'sent' : 'inferred',
    sentAtMs: isSent ? outcomeAtMs : reply.grantedAtMs,
    baseline: {
      job: jobBefore,
      readByMs: outcomeAtMs,
      ...(isGranted && reply.previousEnd && { previousEnd: reply.previousEnd }),
    },
    arrivedByMs: isSent ? outcomeAtMs : reply.overAtMs,
    runId: reply.runId,
    observedActive: isSent && job !== undefined && isAtWork(job) && isTerminalStatus(jobBefore.status),
  };
}
