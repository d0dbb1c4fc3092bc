/** Something that happens at a point in simulated time. */
interface Event {
  atMs: number;
  /** Order of creation, for events at the same time. */
  order: number;
  happen: () => void;
}

/** Simulated time. Events happen in order of their times, and nothing waits for a real clock. */
export class Timeline {
  /** Milliseconds since the start of the simulation. */
  nowMs = 0;
  /** Events that have happened. */
  happened = 0;
  #made = 0;
  /** A binary heap with the earliest event first. */
  readonly #events: Event[] = [];

  /** Schedules something at a time, or now if that has passed. */
  at(atMs: number, happen: () => void): void {
    this.#push({ atMs: Math.max(atMs, this.nowMs), order: this.#made++, happen });
  }

  /** Schedules something after `ms`. */
  after(ms: number, happen: () => void): void {
    this.at(this.nowMs + ms, happen);
  }

  /** Runs all events up to `endMs`. */
  run(endMs: number): void {
    for (let event = this.#pop(); event && event.atMs <= endMs; event = this.#pop()) {
      this.nowMs = event.atMs;
      this.happened += 1;
      event.happen();
    }
  }

  #push(event: Event): void {
    const events = this.#events;
    let index = events.push(event) - 1;
    while (index > 0) {
      const parentIndex = (index - 1) >> 1;
      const parent = events[parentIndex];
      if (!parent || isBefore(parent, event)) break;
      events[index] = parent;
      index = parentIndex;
    }
    events[index] = event;
  }

  #pop(): Event | undefined {
    const events = this.#events;
    const first = events[0];
    const last = events.pop();
    if (!last || events.length === 0) return first;
    let index = 0;
    for (;;) {
      let childIndex = 2 * index + 1;
      const left = events[childIndex];
      const right = events[childIndex + 1];
      if (!left) break;
      const child = right && isBefore(right, left) ? right : left;
      if (child === right) childIndex += 1;
      if (isBefore(last, child)) break;
      events[index] = child;
      index = childIndex;
    }
    events[index] = last;
    return first;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
