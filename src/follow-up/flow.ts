import { defined } from '../contract/defined.js';
import {
  type FollowUpProgress,
  type FollowUpSettings,
  type FollowUpStanding,
  isEndState,
  type ResolveWord,
  type ShownPause,
} from '../contract/index.js';
import { MAX_KEYWORD_LENGTH } from '../contract/names.js';
import type { GrantedBefore, ToldPause } from '../contract/protocol.js';
import { isKeyRefused } from './look.js';
import type { FollowUpPort, GetJobResult, SendFollowUpResult, ShownAttributes, Steps } from './port.js';
import type { FollowUpState, View } from './state.js';
import { messageTag, turnShown } from './turn.js';

/** How often a follow-up whose key is refused repeats that to the budget. */
export const TELL_OF_KEY_EVERY_MS = 10 * 60_000;

const STALE_RETRY_MS = 200;
const MOST_STALE_DOUBLINGS = 8;

/**
 * What the steps of a follow-up share: its settings, its state, what others said to it, and its port to the outside.
 */
export class FollowUpFlow {
  #isCancelled = false;
  #isWoken = false;

  constructor(
    readonly settings: FollowUpSettings,
    readonly state: FollowUpState,
    readonly port: FollowUpPort,
  ) {}

  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /** Whether the budget has woken it since the latest ask. */
  get isWoken(): boolean {
    return this.#isWoken;
  }

  /** Whether a run that this one replaces may have continued and sent the message. */
  get #mayHaveSentElsewhere(): boolean {
    return this.state.replacesRun || this.port.replacesRun;
  }

  /** Ends the follow-up at the next step, after any send under way. */
  cancel(): void {
    this.#isCancelled = true;
  }

  /** The budget has a slot or news: ask now. */
  wake(): void {
    this.#isWoken = true;
  }

  /** Waits for the next wake. The previous one has been acted upon. */
  forgetCall(): void {
    this.#isWoken = false;
  }

  pollNow(): void {
    this.state.pollNow = true;
  }

  /** Why an operator's word on the delivery is not accepted now; `undefined` if it is. */
  refusalOfWord(word: unknown): string | undefined {
    const { phase, view } = this.state;
    if (word !== 'sent' && word !== 'notSent') return `must be 'sent' or 'notSent' (given ${JSON.stringify(word)})`;
    // A follow-up that is shown as ended has already decided and only tells its budget.
    if (phase.kind === 'reconciling' && !isEndState(view.state)) return undefined;
    return `the follow-up is not reconciling (it is ${view.state}): its delivery is not in doubt`;
  }

  /** An operator's word on the delivery. */
  resolveDelivery(word: ResolveWord): void {
    if (this.state.phase.kind === 'reconciling') this.state.phase.operatorWord = word;
  }

  *getJob(summary: string, { beforeSend = false } = {}): Steps<GetJobResult> {
    const read = yield* this.port.getJob(summary, beforeSend);
    yield* this.noteRead(read);
    return read;
  }

  /** Records what a read showed, and tells the budget what it says about the key. */
  *noteRead(read: GetJobResult): Steps<void> {
    const { port, state } = this;
    if (read.kind === 'job') {
      state.seen = { job: read.job, atMs: port.nowMs(), isSinceSend: state.phase.kind !== 'asking' };
    }
    if (read.kind !== 'job') this.noteError(read.message);
    yield* this.#tellOfKey(read);
    if (read.sendStartToCloseMs !== undefined) state.sendStartToCloseMs = read.sendStartToCloseMs;
    if (read.linksArePrivate) state.linksArePrivate = true;
  }

  /**
   * Asks the budget and sends if it grants.
   *
   * @param how `hold`: only ask for a place; `withdraw`: leave, unless something was granted
   */
  *send(how?: 'hold' | 'withdraw'): Steps<SendFollowUpResult> {
    const { port, state } = this;
    const { projectId, jobId, lane } = this.settings;
    const { sendNumber, firstRunStartedAtMs, ledgerSinceMs } = state;
    const replaces = this.#mayHaveSentElsewhere;
    const grantedBefore: GrantedBefore | undefined = state.grantedBefore ?? (replaces ? 'perhaps' : undefined);
    const provenNotSent = state.provenNotSent && !replaces;
    this.#isWoken = false;
    state.provenNotSent = false;
    state.knownToBudget = true;
    state.askCount += 1;
    const result = yield* port.send(
      {
        projectId,
        jobId,
        lane,
        sendNumber,
        hold: how === 'hold',
        ...(how === 'withdraw' && { withdraw: true }),
        firstRunStartedAtMs,
        ...defined({ grantedBefore }),
        ...(!replaces && { askNumber: state.askCount }),
        ...(provenNotSent && { provenNotSent }),
        ...defined({ ledgerSinceMs }),
        messageTag: this.messageTag(),
      },
      { startToCloseMs: state.sendStartToCloseMs, summary: summaryOf(how, sendNumber, jobId) },
    );
    if (result.kind !== 'stale') state.staleAsks = 0;
    if (result.kind !== 'outcome') {
      if (result.ledgerSinceMs !== undefined) state.ledgerSinceMs = result.ledgerSinceMs;
      if (result.grantedBefore) state.grantedBefore = result.grantedBefore;
    }
    const hasPlace = result.kind === 'wait' && result.proven && result.reason !== 'queue-full';
    if (hasPlace) delete state.grantedBefore;
    const isKept = (result.kind === 'wait' || result.kind === 'stale') && result.provenNotSent === true;
    state.provenNotSent = result.kind === 'closed' || hasPlace || isKept;
    return result;
  }

  /** Identifies the message to the budget. */
  messageTag(): string {
    const prLink = this.state.phase.baseline.prLink ?? null;
    return messageTag({ workflowId: this.port.workflowId, prompt: this.settings.prompt, prLink });
  }

  /** Prepares the next send after one that is over. */
  beginNextSend(): void {
    this.state.sendNumber += 1;
    this.state.provenNotSent = !this.#mayHaveSentElsewhere;
    delete this.state.grantedBefore;
  }

  /** How long to wait before repeating an overtaken ask. It doubles with each one in a row, up to 51 s. */
  staleBackoffMs(): number {
    return STALE_RETRY_MS * 2 ** Math.min(this.state.staleAsks++, MOST_STALE_DOUBLINGS);
  }

  /** Sleeps on a durable timer, until `until` holds or the follow-up is cancelled. */
  sleep(ms: number, summary: string, until: () => boolean = () => false): Steps<void> {
    return this.port.sleep(Math.max(1, Math.round(ms)), summary, () => this.#isCancelled || until());
  }

  /** Records the last thing that went wrong, to show it. */
  noteError(message: string): void {
    this.state.lastError = { atMs: this.port.nowMs(), message };
  }

  show(view: View): void {
    const { settings, state } = this;
    state.view = view;
    state.viewedAtMs = this.port.nowMs();
    const { jobStatus, prLink } = turnShown(state);
    const attributes: ShownAttributes = {
      projectId: settings.projectId,
      jobId: settings.jobId,
      state: view.state,
      // `null` removes an attribute: values from the previous turn must not be read as this one's.
      jobStatus: jobStatus?.slice(0, MAX_KEYWORD_LENGTH) ?? null,
      prLink: state.linksArePrivate || prLink === undefined || prLink.length > MAX_KEYWORD_LENGTH ? null : prLink,
    };
    const shown = { jobStatus: null, prLink: null, ...state.attributes };
    const changed = Object.fromEntries(
      Object.entries(attributes).filter(([name, value]) => value !== shown[name as keyof ShownAttributes]),
    ) as Partial<ShownAttributes>;
    state.attributes = attributes;
    this.port.show(this.progress(), changed);
  }

  /** What the follow-up knows and waits for now. */
  progress(): FollowUpProgress {
    const { settings, state } = this;
    const { view, phase, seen, lastError } = state;
    const iso = (ms: number) => new Date(ms).toISOString();
    return {
      projectId: settings.projectId,
      jobId: settings.jobId,
      ...standingOf(view),
      learnedAt: iso(state.viewedAtMs),
      ...('position' in view && {
        ...(view.state === 'waiting-for-budget' && view.position > 0 && { position: view.position }),
        ...(view.expectedSendAtMs !== null && { expectedSendAt: iso(view.expectedSendAtMs) }),
        ...(view.nextTryAtMs !== undefined && { nextTryAt: iso(view.nextTryAtMs) }),
        ...(view.pause && { pause: pauseShown(view.pause) }),
      }),
      ...(phase.kind === 'watching' && { sentAt: iso(phase.sentAtMs), delivery: phase.delivery }),
      ...(state.earlierSendUnknown && { earlierSendUnknown: true }),
      ...(!isEndState(view.state) && { waitsUntil: iso(this.#waitsUntilMs()) }),
      polls: state.polls,
      ...('nextLookAtMs' in view && view.nextLookAtMs !== null && { nextPollAt: iso(view.nextLookAtMs) }),
      ...(seen && { job: seen.job, jobSeenAt: iso(seen.atMs) }),
      ...turnShown(state),
      ...(lastError && { lastError: { at: iso(lastError.atMs), message: lastError.message } }),
    };
  }

  #waitsUntilMs(): number {
    const { settings, state } = this;
    const { phase } = state;
    if (phase.kind === 'reconciling') return phase.untilMs;
    if (phase.kind === 'watching') return phase.sentAtMs + settings.jobTimeoutMs;
    return state.firstRunStartedAtMs + settings.budgetWaitTimeoutMs;
  }

  /**
   * Tells the budget that a read was refused for its key, or that the key is accepted again. If the project has no
   * budget yet, an ask for a place creates one; otherwise nobody would report the problem.
   */
  *#tellOfKey(read: GetJobResult): Steps<void> {
    const { port, state } = this;
    const isRefused = isKeyRefused(read);
    if (isRefused) {
      if (state.keyRefusedAtMs !== undefined && port.nowMs() < state.keyRefusedAtMs + TELL_OF_KEY_EVERY_MS) return;
      state.keyRefusedAtMs = port.nowMs();
    } else {
      if (read.kind === 'failed' || state.keyRefusedAtMs === undefined) return;
      delete state.keyRefusedAtMs;
    }
    const isHeard = yield* port.tell({ kind: 'keyRead', isRefused });
    if (isHeard || !isRefused || state.phase.kind !== 'asking') return;
    yield* this.send('hold');
    yield* port.tell({ kind: 'keyRead', isRefused });
  }
}

function pauseShown({ by, untilMs, note }: ToldPause): ShownPause {
  return {
    by,
    ...(untilMs !== undefined && { until: new Date(untilMs).toISOString() }),
    ...defined({ note }),
  };
}

/** The part of a view that makes up the standing. */
function standingOf(view: View): FollowUpStanding {
  switch (view.state) {
    case 'waiting-for-budget':
    case 'waiting-for-job':
    case 'blocked':
      return { state: view.state, waitReason: view.waitReason };
    case 'sending':
    case 'polling':
    case 'reconciling':
      return { state: view.state };
    default:
      return view;
  }
}

function summaryOf(how: 'hold' | 'withdraw' | undefined, sendNumber: number, jobId: string): string {
  if (how === undefined) return `send ${sendNumber} to ${jobId}`;
  return how === 'hold' ? `keep the place for ${jobId}` : `leave ${jobId}`;
}
