import type { GrantMark } from '../src/activities/ask-again.js';
import { type Attempt, judgeLook, waitBeforeLook } from '../src/follow-up/look.js';
import type { GetJobResult, SendFollowUpResult, WatchEnd, WatchOrder } from '../src/follow-up/port.js';
import { attempt, type AttemptInput, type AttemptSurroundings, type ServersWord } from './attempt.js';
import { Later, Process } from './process.js';
import type { ServerClock, World } from './world.js';

/** Retries of the activity: after 1 s, doubling up to 60 s, without limit. */
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 60_000;

/** After this time, the server repeats a look whose worker died. */
const LOOK_TIMEOUT_MS = 10_000;

/** In production start-to-close is lease + 15 s. */
const START_TO_CLOSE_AFTER_LEASE_MS = 15_000;

/** How the server runs the `sendFollowUp` activities of follow-ups. */
export class ActivityServer {
  readonly #surroundings: AttemptSurroundings;
  readonly #clock: ServerClock;
  readonly #startToCloseMs: number;

  constructor(surroundings: AttemptSurroundings, clock: ServerClock) {
    this.#surroundings = surroundings;
    this.#clock = clock;
    // A shorter timeout makes more attempts that the server has given up but that still run.
    const { chaotic, chance, sizes } = surroundings.world;
    const longestMs = sizes.leaseMs + START_TO_CLOSE_AFTER_LEASE_MS;
    this.#startToCloseMs = chaotic ? chance.between(8_000, longestMs) : longestMs;
  }

  /**
   * Schedules an activity: attempts until one completes. An attempt that the server gives up is not told and keeps
   * running.
   *
   * @param isOpen whether the workflow run that scheduled it still runs
   */
  schedule(
    input: Omit<AttemptInput, keyof ServersWord>,
    { activityId, isOpen }: { activityId: string; isOpen: () => boolean },
  ): Later<SendFollowUpResult> {
    const { world } = this.#surroundings;
    const result = new Later<SendFollowUpResult>(world.timeline);
    const scheduledAtMs = this.#clock.nowMs();
    let number = 0;
    let mark: GrantMark | undefined;
    const next = (): void => {
      if (result.isSet || !isOpen()) return;
      number = world.faults.strikes('activityReset') ? 1 : number + 1;
      const own = number;
      // The server cannot distinguish two attempts of the same number.
      const isCurrent = () => own === number && !result.isSet && isOpen();
      const name = `${input.followUp.workflowId}:${activityId}#${number}`;
      const attemptScheduledAtMs = Math.max(scheduledAtMs, this.#clock.nowMs());
      const attemptInput = {
        ...input,
        attemptScheduledAtMs,
        name,
        number,
        mark: world.broken.has('mark') ? undefined : mark,
        isReset: number === 1 && attemptScheduledAtMs > scheduledAtMs,
        isCurrent,
        startToCloseMs: this.#startToCloseMs,
        note: (given: GrantMark): boolean => {
          if (!isCurrent()) return false;
          mark = given;
          return true;
        },
      };
      world.timeline.after(world.delayMs(60, 3_000), () => {
        this.#runAttempt(world, attemptInput, { result, retry: () => world.timeline.after(retryMs(number), next) });
      });
    };
    next();
    return result;
  }

  /** Schedules a watch: attempts, each of them one look, until one ends it. A look whose worker dies is repeated. */
  watch(order: WatchOrder, { read, isOpen }: { read: () => GetJobResult; isOpen: () => boolean }): Later<WatchEnd> {
    const { world } = this.#surroundings;
    const end = new Later<WatchEnd>(world.timeline);
    let number = 0;
    let failuresBefore = order.failures;
    const look = (): void => {
      if (end.isSet || !isOpen()) return;
      number += 1;
      if (world.faults.strikes('crash') || world.faults.strikes('lost')) {
        world.timeline.after(LOOK_TIMEOUT_MS + order.intervalMs, look);
        return;
      }
      const random = world.chance.between(0, 1);
      const attempt: Attempt = { number, nowMs: this.#clock.nowMs(), failuresBefore, random };
      const what = waitBeforeLook(order, attempt) ?? judgeLook(order, attempt, read());
      if (what.kind === 'end') return end.set({ ...what, kind: 'seen' });
      failuresBefore = what.failures;
      world.timeline.after(what.delayMs + world.delayMs(60, 3_000), look);
    };
    world.timeline.after(world.delayMs(60, 3_000), look);
    return end;
  }

  #runAttempt(
    world: World,
    input: AttemptInput,
    { result, retry }: { result: Later<SendFollowUpResult>; retry: () => void },
  ): void {
    const process = new Process(world.timeline);
    let closed = false;
    world.timeline.after(this.#startToCloseMs, () => {
      if (closed) return;
      closed = true;
      if (!result.isSet) world.note('  start-to-close', input.name);
      retry();
    });
    process.start(attempt(this.#surroundings, input, process), (value) => {
      // If a completion is lost or too late, the attempt ends by its start-to-close timeout.
      if ((closed && !input.isCurrent()) || world.faults.strikes('lost')) return;
      closed = true;
      if (value) result.set(value);
      else retry();
    });
  }
}

function retryMs(attempts: number): number {
  return Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(attempts - 1, 10));
}
