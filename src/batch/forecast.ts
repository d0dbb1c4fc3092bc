import type { BudgetSlots } from '../contract/index.js';

/** Between two starts of a batch's follow-ups. */
const START_GAP_MS = 200;
/** Runs of the forecast, of which the middle one counts; fewer where many items are left. */
const MOST_RUNS = 31;
const MOST_STEPS = 20_000;

/** An item that has not ended. */
export interface ItemLeft {
  projectId: string;
  jobId: string;
  /** Since when it has its slot, in epoch milliseconds; missing before that. */
  sentAtMs?: number;
  /** Whether its follow-up is started: the others wait for their turn in the batch. */
  isStarted: boolean;
  /** Place in the line of its project, from 1, where it is known. */
  position?: number;
}

/** What the end of a batch hangs on. */
export interface Outlook {
  /** In the order of the batch. */
  left: readonly ItemLeft[];
  /** Most follow-ups that are open at a time. */
  maxOpen: number;
  /** Slots of each project, and how many follow-ups stand in its line, those of the batch included. */
  projects: ReadonlyMap<string, { slots: BudgetSlots; inLine: number }>;
  /** From slot to end, of items that have ended, in milliseconds; of the latest that are known. */
  turnsMs: readonly number[];
}

/**
 * When a batch will have ended, in epoch milliseconds: what is left is sent in the slots of its projects, as they end,
 * and each turn lasts as long as one of those that have ended. `undefined` where that cannot be told: no turn has ended
 * yet, a project is not known, or is paused until somebody resumes it.
 *
 * Not known to it, and so not in it: follow-ups of others that come before the batch's from now on, and items that fail
 * without a send.
 */
export function forecastEnd(outlook: Outlook, nowMs: number): number | undefined {
  const { left, projects, turnsMs } = outlook;
  if (left.length === 0) return nowMs;
  if (turnsMs.length === 0) return undefined;
  for (const { projectId, sentAtMs } of left) {
    const slots = projects.get(projectId)?.slots;
    if (sentAtMs === undefined && (!slots || slots.limit - slots.reserve <= 0 || slots.pausedUntilMs === null)) {
      return undefined;
    }
  }
  const turns = new Turns(outlook, nowMs);
  const runs = turns.areEqual ? 1 : Math.max(1, Math.min(MOST_RUNS, Math.floor(MOST_STEPS / left.length)));
  const ends = Array.from({ length: runs }, (_, run) => runOnce(outlook, turns, numbers(run + 1), nowMs));
  ends.sort((one, other) => one - other);
  return ends[Math.floor(runs / 2)];
}

/** One course that the batch may take. */
function runOnce({ left, maxOpen, projects }: Outlook, turns: Turns, random: () => number, nowMs: number): number {
  const lines = new Map([...projects].map(([projectId, { slots }]) => [projectId, new SlotLine(slots, nowMs)]));
  const openOf = new Map<string, number>();
  const busyJobs = new Set<string>();
  const ends: { atMs: number; item: ItemLeft }[] = [];
  const add = (item: ItemLeft, atMs: number) => {
    openOf.set(item.projectId, (openOf.get(item.projectId) ?? 0) + 1);
    busyJobs.add(jobOf(item));
    ends.push({ atMs, item });
  };
  for (const item of left) {
    if (item.sentAtMs === undefined) continue;
    const elapsedMs = Math.max(0, nowMs - item.sentAtMs);
    add(item, nowMs - elapsedMs + turns.draw(random(), elapsedMs));
  }
  const send = (item: ItemLeft, fromMs: number) => {
    const sentAtMs = lines.get(item.projectId)?.take(fromMs) ?? fromMs;
    add(item, sentAtMs + turns.draw(random(), 0));
  };
  for (const [projectId, { inLine }] of projects) {
    const mine = left.filter((item) => item.projectId === projectId && item.isStarted && item.sentAtMs === undefined);
    const placed = new Map(mine.flatMap((item) => (item.position === undefined ? [] : [[item.position, item]])));
    const unplaced = mine.filter(({ position }) => position === undefined);
    // Those whose place is not known stand behind those whose place is.
    for (let place = 1; place <= Math.max(inLine, ...placed.keys()); place++) {
      const isBehind = inLine - place < unplaced.length;
      const item = placed.get(place) ?? (isBehind ? unplaced.shift() : undefined);
      if (item) send(item, nowMs);
      else lines.get(projectId)?.take(nowMs);
    }
    for (const item of unplaced) send(item, nowMs);
  }
  const queues = new Map<string, { item: ItemLeft; place: number }[]>();
  for (const [place, item] of left.entries()) {
    if (item.isStarted) continue;
    const queue = queues.get(item.projectId) ?? [];
    if (queue.push({ item, place }) === 1) queues.set(item.projectId, queue);
  }
  let atMs = nowMs;
  let lastStartMs = -Infinity;
  let endMs = nowMs;
  for (;;) {
    while (ends.length < maxOpen) {
      const item = takeNext(queues, openOf, busyJobs);
      if (!item) break;
      lastStartMs = Math.max(atMs, lastStartMs + START_GAP_MS);
      send(item, lastStartMs);
    }
    const first = ends.reduce((best, end, index) => (end.atMs < (ends[best]?.atMs ?? Infinity) ? index : best), 0);
    const [ended] = ends.splice(first, 1);
    if (!ended) return endMs;
    const { item } = ended;
    atMs = Math.max(atMs, ended.atMs);
    endMs = atMs;
    openOf.set(item.projectId, (openOf.get(item.projectId) ?? 1) - 1);
    busyJobs.delete(jobOf(item));
  }
}

/** As the parts of a batch choose: of the projects with the fewest open, the first whose job is at rest. */
function takeNext(
  queues: ReadonlyMap<string, { item: ItemLeft; place: number }[]>,
  openOf: ReadonlyMap<string, number>,
  busyJobs: ReadonlySet<string>,
): ItemLeft | undefined {
  let best: { queue: { item: ItemLeft; place: number }[]; index: number; open: number; place: number } | undefined;
  for (const [projectId, queue] of queues) {
    const open = openOf.get(projectId) ?? 0;
    if (open > (best?.open ?? Infinity)) continue;
    const index = queue.findIndex(({ item }) => !busyJobs.has(jobOf(item)));
    const place = queue[index]?.place ?? Infinity;
    if (index === -1 || (open === best?.open && place > best.place)) continue;
    best = { queue, index, open, place };
  }
  return best?.queue.splice(best.index, 1)[0]?.item;
}

function jobOf({ projectId, jobId }: ItemLeft): string {
  return `${projectId}/${jobId}`;
}

/** The slots of a project, taken one after the other. */
class SlotLine {
  readonly #endsMs: number[];
  readonly #limit: number;
  #next = 0;
  #pacedMs: number;

  constructor(
    readonly slots: BudgetSlots,
    nowMs: number,
  ) {
    this.#limit = slots.limit - slots.reserve;
    this.#endsMs = [...slots.endsMs];
    this.#pacedMs = Math.max(slots.pausedUntilMs ?? nowMs, slots.pace?.nextAtMs ?? nowMs);
  }

  /** Takes the next slot that is free from `fromMs` on, and answers when that is. */
  take(fromMs: number): number {
    const ends = this.#endsMs;
    let atMs = Math.max(fromMs, this.#pacedMs);
    while ((ends[this.#next] ?? Infinity) <= atMs) this.#next += 1;
    const tooMany = ends.length - this.#next - this.#limit;
    if (tooMany >= 0) {
      this.#next += tooMany + 1;
      atMs = Math.max(atMs, ends[this.#next - 1] ?? atMs);
    }
    this.#pacedMs = Math.max(this.#pacedMs, atMs + (this.slots.pace?.gapMs ?? 0));
    ends.push(atMs + this.slots.cycleMs);
    return atMs;
  }
}

/**
 * How long turns last, by those that have ended and those that go on: one that goes on lasts longer than it has so far,
 * so that the first to end do not pass for all (the estimate of Kaplan and Meier).
 */
class Turns {
  /** Lengths in order, each with the share of turns that are at most so long. */
  readonly #steps: { ms: number; share: number }[] = [];
  readonly #longestMs: number;

  constructor({ left, turnsMs }: Outlook, nowMs: number) {
    const goingOn = left.flatMap(({ sentAtMs }) => (sentAtMs === undefined ? [] : [nowMs - sentAtMs]));
    const seen = [...turnsMs.map((ms) => ({ ms, isOver: true })), ...goingOn.map((ms) => ({ ms, isOver: false }))].sort(
      (one, other) => one.ms - other.ms || Number(other.isOver) - Number(one.isOver),
    );
    let lasting = 1;
    for (const [index, { ms, isOver }] of seen.entries()) {
      if (!isOver) continue;
      lasting *= 1 - 1 / (seen.length - index);
      this.#steps.push({ ms, share: 1 - lasting });
    }
    this.#longestMs = seen.at(-1)?.ms ?? 0;
  }

  get areEqual(): boolean {
    return this.#steps.length > 0 && this.#steps[0]?.ms === this.#longestMs;
  }

  /** A length that is more than `overMs`: `at` from 0 to 1 says which of them. */
  draw(at: number, overMs: number): number {
    const before = this.#steps.findLast(({ ms }) => ms <= overMs)?.share ?? 0;
    const share = before + at * (1 - before);
    const step = this.#steps.find((each) => each.share >= share && each.ms > overMs);
    return step?.ms ?? Math.max(this.#longestMs, overMs);
  }
}

/** Numbers from 0 to 1 that are the same each time, evenly spread (a linear congruential generator). */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
