import type { Client } from '@temporalio/client';
import { z } from 'zod';
import { parseInput } from '../contract/index.js';
import { InvalidInputError } from './errors.js';
import { type BackfilledRange, type BackfillInput, backfillSchedule } from './schedule-backfill.js';
import {
  parseNote,
  pauseNote,
  RESUMED,
  type ScheduleDescription,
  toScheduleDescription,
} from './schedule-description.js';
import { scheduleNoteSchema } from './schedule-input.js';
import { callSchedule, describeSchedule, type ScheduleTarget } from './schedule-target.js';
import { type TriggeredFiring, triggerSchedule } from './schedule-trigger.js';

/** A schedule of batches. Cheap to make; nothing is asked before a method is called. */
export class ScheduleHandle {
  readonly #target: ScheduleTarget;
  /** Also its schedule id in Temporal. */
  readonly name: string;

  constructor(client: Client, name: string) {
    this.#target = { client, name };
    this.name = name;
  }

  /**
   * How the schedule stands. Needs no worker.
   *
   * @throws ScheduleNotFoundError, ForeignScheduleError, TemporalUnreachableError
   */
  async describe(): Promise<ScheduleDescription> {
    return toScheduleDescription(this.name, await describeSchedule(this.#target));
  }

  /**
   * Fires no more until it is resumed. A batch that runs goes on. Harmless when repeated.
   *
   * @param note why, shown behind the schedule's own note until it is resumed
   * @throws InvalidInputError, ScheduleNotFoundError, ForeignScheduleError, TemporalUnreachableError
   */
  async pause(note?: string): Promise<ScheduleDescription> {
    const parsed = parseInput(z.object({ note: scheduleNoteSchema.optional() }), { note });
    if (!parsed.ok) throw new InvalidInputError(parsed.issues);
    return this.#patch('pause', (own) => pauseNote(this.name, { own, since: new Date(), note }));
  }

  /**
   * Fires again from the next time on. What was due in the meantime is not made good; {@link backfill} does that.
   *
   * @throws ScheduleNotFoundError, ForeignScheduleError, TemporalUnreachableError
   */
  async resume(): Promise<ScheduleDescription> {
    return this.#patch('unpause', (own) => own ?? RESUMED);
  }

  /**
   * Fires now, paused or not, under the schedule's own overlap policy. Calling it again fires again.
   *
   * @throws ScheduleNotFoundError, ForeignScheduleError, TemporalUnreachableError
   */
  async trigger(): Promise<TriggeredFiring> {
    return triggerSchedule(this.#target);
  }

  /**
   * Fires for every time of a range in the past that has not fired, paused or not; by default one after another. A
   * firing has the id that it would have had in time, so that none of its follow-ups is sent twice.
   *
   * @throws InvalidInputError, also for more firings than `maxFirings`; ScheduleNotFoundError, ForeignScheduleError,
   * TemporalUnreachableError
   */
  async backfill(input: BackfillInput): Promise<BackfilledRange> {
    return backfillSchedule(this.#target, input);
  }

  /**
   * Deletes the schedule. Batches that run go on.
   *
   * @returns what it was
   * @throws ScheduleNotFoundError, ForeignScheduleError, TemporalUnreachableError
   */
  async delete(): Promise<ScheduleDescription> {
    const last = await this.describe();
    await callSchedule(this.#target, () => this.#temporal.delete());
    return last;
  }

  get #temporal() {
    return this.#target.client.schedule.getHandle(this.name);
  }

  async #patch(order: 'pause' | 'unpause', noteOf: (own: string | undefined) => string): Promise<ScheduleDescription> {
    const { state } = await describeSchedule(this.#target);
    // The server takes the order from the note: it must not be empty, and it replaces the one there was.
    const text = noteOf(parseNote(state.note).note);
    await callSchedule(this.#target, () => this.#temporal[order](text));
    return this.describe();
  }
}
