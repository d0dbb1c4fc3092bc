import type { Delivered, FollowUpSettings } from '../contract/index.js';
import type { AskReply } from '../protocol/index.js';
import type { Display } from './display.js';
import type { FollowUpPort } from './port.js';
import type { Waits } from './waits.js';

/** What the steps of a follow-up share. */
export interface StepContext {
  readonly settings: FollowUpSettings;
  readonly port: FollowUpPort;
  readonly display: Display;
  readonly waits: Waits;
  readonly doubt: Doubt;
}

/** Whether an earlier run, or an earlier send of this run, may have delivered the message. */
export class Doubt {
  #exists: boolean;
  #mayHaveResent = false;
  readonly #runId: string;

  constructor({ runId, mayHaveSent }: Pick<FollowUpPort, 'runId' | 'mayHaveSent'>) {
    this.#runId = runId;
    this.#exists = mayHaveSent;
  }

  get exists(): boolean {
    return this.#exists;
  }

  /** What to report if the last send did not deliver the message: `unknown` if an earlier one may have. */
  delivered(): Extract<Delivered, 'unknown' | 'no'> {
    return this.#exists ? 'unknown' : 'no';
  }

  /** Whether the message may have been sent again already, which `onUnknownDelivery` allows once, whichever run does it. */
  get mayHaveResent(): boolean {
    return this.#mayHaveResent;
  }

  raise({ mayHaveResent = false } = {}): void {
    this.#exists = true;
    this.#mayHaveResent ||= mayHaveResent;
  }

  /**
   * Only the budget can rule out a send of an earlier run, by its reply about a first send: to a follow-up that may have
   * sent, it replies with the earlier send instead of a place. A reply to another run proves nothing, because a reset run
   * replays its predecessor's replies.
   */
  ruleOut({ runId, sendNumber }: Pick<Extract<AskReply, { runId: string }>, 'runId' | 'sendNumber'>): void {
    if (runId === this.#runId && sendNumber === 1) this.#exists = false;
  }
}
