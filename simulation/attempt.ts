import { asksInPlace, type GrantMark, isSettleUrgent, knownBefore } from '../src/activities/ask-again.js';
import { ASKS_APART_MS } from '../src/budget/limits.js';
import { defined } from '../src/contract/defined.js';
import type { SendOutcome } from '../src/contract/index.js';
import type { AcquireAnswer, AcquireRequest } from '../src/contract/protocol.js';
import type { SendFollowUpInput, SendFollowUpResult } from '../src/follow-up/port.js';
import type { FollowUpRecord } from './follow-up-record.js';
import type { Network } from './network.js';
import { Later, type Process, sleep, sleepForEver, type Steps } from './process.js';
import type { Service, ServiceAnswer } from './service.js';
import type { World } from './world.js';

/** What the server says about an attempt. */
export interface ServersWord {
  attemptScheduledAtMs: number;
  startToCloseMs: number;
  /** What an earlier attempt has noted with the server. */
  mark: GrantMark | undefined;
  /** Number of the attempt, from 1, and whether the count was reset. */
  number: number;
  isReset: boolean;
  /** Whether the server accepts anything from an attempt of this number. */
  isCurrent: () => boolean;
  /** Notes the grant with the server; `false` if it does not accept it from this attempt. */
  note: (mark: GrantMark) => boolean;
  /** Activity id and attempt number. Not unique, because they repeat after a reset. */
  name: string;
}

/** What the workflow wants sent, and what the server says about this attempt. */
export interface AttemptInput extends SendFollowUpInput, ServersWord {
  followUp: FollowUpRecord;
}

/** Where attempts run. */
export interface AttemptSurroundings {
  world: World;
  network: Network;
  service: Service;
}

/** The outcome of a POST as the sender sees it. */
interface PostOutcome {
  outcome: SendOutcome;
  statusCode?: number;
  retryAfterMs?: number;
}

/** One invocation of the `sendFollowUp` activity; `undefined` if it threw. */
export function* attempt(
  { world, network, service }: AttemptSurroundings,
  input: AttemptInput,
  process: Process,
): Steps<SendFollowUpResult | undefined> {
  const { followUp, sendNumber, hold, withdraw, firstRunStartedAtMs, attemptScheduledAtMs, messageTag } = input;
  const { leaseMs, drainMs, sendTimeoutMs } = world.sizes;
  yield* mishap(world, process, input.name);
  const elapsedMs = startStopwatch(world, process);
  const known = world.broken.has('claim') ? { provenNotSent: true as const } : knownBefore(input, input);
  const request: AcquireRequest = {
    workflowId: followUp.workflowId,
    sendNumber,
    jobId: followUp.jobId,
    lane: followUp.lane,
    token: tokenOf(world, input),
    hold,
    ...(withdraw && { withdraw }),
    attemptScheduledAtMs,
    firstRunStartedAtMs,
    ...known,
    ...defined({ askNumber: input.askNumber }),
    messageTag,
    leaseMs,
    drainMs: world.broken.has('drain') ? 0 : drainMs,
    ...defined({ ceiling: world.ceiling }),
  };
  let ask = yield* network.ask(request);
  let inPlace = asksInPlace(ask);
  const inPlaceUntilMs = elapsedMs() + (inPlace?.forMs ?? 0);
  while (inPlace && elapsedMs() < inPlaceUntilMs) {
    yield* sleep(world.timeline, Math.max(ASKS_APART_MS, inPlace.afterMs));
    ask = yield* network.ask(request);
    inPlace = asksInPlace(ask);
  }
  yield* mishap(world, process, input.name);
  const { answer, proven } = ask;
  if (answer.kind === 'done') return fromRecord(answer, leaseMs + drainMs - elapsedMs());
  if (answer.kind !== 'granted')
    return elapsedMs() < Math.min(leaseMs, input.startToCloseMs) ? { ...known, ...answer, proven } : undefined;

  const isNoted = yield* network.note(() => input.note({ ledgerSinceMs: answer.ledgerSinceMs }));
  if (!world.broken.has('wait')) yield* sleep(world.timeline, answer.sendAfterMs ?? 0);
  const mayStart = () => elapsedMs() < leaseMs - sendTimeoutMs;
  const beganMs = world.timeline.nowMs;
  const sent: PostOutcome = isNoted
    ? yield* post({ world, service, followUp, mayStart, process, name: input.name })
    : { outcome: 'notSent' };
  const { outcome, retryAfterMs } = sent;
  const { workflowId } = followUp;
  const { token } = request;
  const settled = network.tell(
    { kind: 'settle', workflowId, sendNumber, token, outcome, ...defined({ retryAfterMs }) },
    { isUrgent: isSettleUrgent(outcome, answer), ...(world.broken.has('age') && { sinceMs: beganMs }) },
  );
  if (outcome !== 'sent') yield* settled.get();
  yield* mishap(world, process, input.name);
  return {
    kind: 'outcome',
    ...sent,
    grantedAtMs: answer.grantedAtMs,
    mayArriveForMs: outcome === 'unknown' ? Math.max(0, leaseMs + drainMs - elapsedMs()) : 0,
  };
}

function tokenOf(world: World, { name, followUp, sendNumber }: AttemptInput): string {
  if (world.broken.has('token')) return `${followUp.workflowId}#${sendNumber}`;
  return world.broken.has('nonce') ? name : world.newToken();
}

function fromRecord(answer: Extract<AcquireAnswer, { kind: 'done' }>, latestMs: number): SendFollowUpResult {
  const { outcome, grantedAtMs } = answer;
  const mayArriveForMs = outcome === 'unknown' ? Math.max(0, latestMs) : 0;
  return { kind: 'outcome', outcome, mayArriveForMs, ...(grantedAtMs !== undefined && { grantedAtMs }) };
}

interface Post {
  world: World;
  service: Service;
  followUp: FollowUpRecord;
  mayStart: () => boolean;
  process: Process;
  name: string;
}

/** The POST: connect, last check, bytes, answer. */
function* post({ world, service, followUp, mayStart, process, name }: Post): Steps<PostOutcome> {
  const { chance, faults, timeline } = world;
  const { sendTimeoutMs, drainMs } = world.sizes;
  // DNS, connect and TLS come before the last check.
  yield* sleep(timeline, world.delayMs(50, 6_000));
  yield* mishap(world, process, name);
  if (faults.strikes('post')) return { outcome: 'notSent' };
  if (!mayStart()) return { outcome: 'notSent' };
  if (world.profile === 'residual' && faults.strikes('pause')) yield* sleep(timeline, chance.between(1_000, 30_000));

  world.counts.posts += 1;
  followUp.beganPost = true;
  const answered = new Later<ServiceAnswer | undefined>(timeline).expire(sendTimeoutMs, undefined);
  if (!faults.strikes('post', 0.5)) {
    const isLate = faults.strikes('lateBytes');
    const arrivesAfterMs = isLate ? chance.between(100, sendTimeoutMs + drainMs - 50) : chance.between(5, 300);
    timeline.after(arrivesAfterMs, () => {
      const answer = service.take(followUp.workflowId);
      if (!faults.strikes('post', 0.5)) timeline.after(world.delayMs(300, 4_000), () => answered.set(answer));
    });
  }
  yield* mishap(world, process, name);
  const answer = yield* answered.get();
  if (!answer) return { outcome: 'unknown' };
  const { status, retryAfterMs } = answer;
  return { outcome: outcomeOf(status), statusCode: status, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}

function outcomeOf(status: ServiceAnswer['status']): SendOutcome {
  const outcomes = { 200: 'sent', 400: 'rejected', 401: 'unauthorized', 429: 'limited', 504: 'unknown' } as const;
  return outcomes[status];
}

/** Here the machine may die, freeze or sleep. */
function* mishap(world: World, process: Process, name: string): Steps<void> {
  const { faults, chance, timeline } = world;
  if (faults.strikes('crash')) {
    world.note('  crash', name);
    process.kill();
    yield* sleepForEver();
  }
  if (faults.strikes('pause')) yield* sleep(timeline, chance.between(1_000, 25_000));
  if (faults.strikes('suspend')) {
    const ms = chance.between(5_000, 90_000);
    world.note('  suspend', name, Math.round(ms), 'ms');
    process.sleptMs += ms;
    yield* sleep(timeline, ms);
  }
}

/** The larger of two clocks: the monotonic one stops while the machine sleeps. */
function startStopwatch({ timeline, broken }: World, process: Process): () => number {
  const startedMs = timeline.nowMs;
  const sleptMs = process.sleptMs;
  return () => {
    const wallMs = timeline.nowMs - startedMs;
    return broken.has('wall') ? wallMs - (process.sleptMs - sleptMs) : wallMs;
  };
}
