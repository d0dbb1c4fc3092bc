import type { Timeline } from './timeline.js';

/** What a process waits for: something that resumes it once. */
type Suspension = (resume: () => void) => void;

/** The code of a simulated process. It yields when it waits and finally returns a `T`. */
export type Steps<T> = Generator<Suspension, T, void>;

/** A process that runs {@link Steps} in simulated time. It may die at any wait. */
export class Process {
  #dead = false;
  /** How long the machine slept while this process ran and its monotonic clock stopped, in milliseconds. */
  sleptMs = 0;

  constructor(readonly timeline: Timeline) {}

  get dead(): boolean {
    return this.#dead;
  }

  /** Ends the process without a trace: what it waits for never comes. */
  kill(): void {
    this.#dead = true;
  }

  /** Starts the process. `onEnd` receives what it returns. */
  start<T>(steps: Steps<T>, onEnd: (value: T) => void = () => undefined): void {
    const step = (): void => {
      if (this.#dead) return;
      const next = steps.next();
      if (next.done) onEnd(next.value);
      else next.value(step);
    };
    this.timeline.after(0, step);
  }
}

/** Waits for `ms` of simulated time. */
export function* sleep(timeline: Timeline, ms: number): Steps<void> {
  yield (resume) => timeline.after(ms, resume);
}

/** Never continues. */
export function* sleepForEver(): Steps<void> {
  yield () => undefined;
}

/** A value that arrives later. Only the first one counts. */
export class Later<T> {
  #content: { value: T } | undefined;
  #listeners: (() => void)[] = [];

  constructor(readonly timeline: Timeline) {}

  set(value: T): void {
    if (this.#content) return;
    this.#content = { value };
    for (const listener of this.#listeners.splice(0)) this.timeline.after(0, listener);
  }

  get isSet(): boolean {
    return this.#content !== undefined;
  }

  /** Calls `listener` with the value once it is there. */
  whenSet(listener: (value: T) => void): void {
    const content = this.#content;
    if (content) listener(content.value);
    else this.#listeners.push(() => this.whenSet(listener));
  }

  /** Waits until the value is there. */
  *get(): Steps<T> {
    while (!this.#content) yield (resume) => this.#listeners.push(resume);
    return this.#content.value;
  }

  /** Sets `value` after `ms`, unless there is a value by then. */
  expire(ms: number, value: T): this {
    this.timeline.after(ms, () => this.set(value));
    return this;
  }
}
