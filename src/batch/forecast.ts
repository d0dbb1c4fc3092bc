import type { BudgetSlots } from '../contract/protocol.js';

/** Time between two starts of a batch's follow-ups. */
const START_GAP_MS = 200;
/** Number of simulated runs, whose median is the forecast. Fewer if many items are left. */
const MOST_RUNS = 31;
const MOST_STEPS = 20_000;

/** An item that has not ended. */
export interface ItemLeft {
  projectId: string;
  jobId: string;
  /** When its slot was granted, in epoch milliseconds; missing before that. */
  sentAtMs?: number;
  /** Whether its follow-up is started. The others wait for their turn in the batch. */
  isStarted: boolean;
  /** Place in the line of its project, from 1, if it is known. */
  position?: number;
}

/** What the end of a batch depends on. */
export interface Outlook {
  /** In the order of the batch. */
  left: readonly ItemLeft[];
  /** Most follow-ups that are open at once. */
  maxOpen: number;
  /** Slots of each project, and how many follow-ups wait in its line, including those of the batch. */
  projects: ReadonlyMap<string, { slots: BudgetSlots; inLine: number }>;
  /** Times from slot to end of the latest items that have ended, in milliseconds. */
  turnsMs: readonly number[];
}

/**
 * When a batch is expected to end, in epoch milliseconds. Assumes that the items that are left are sent as slots of
 * their projects end, and that each turn lasts as long as one of those that have ended. `undefined` if there is no
 * basis: no turn has ended yet, or a project is unknown or paused until somebody resumes it.
 *
 * The forecast ignores future follow-ups of others that are sent before the batch's, and items that fail without a
 * send.
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

/** One simulated run of the batch. */
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
    // Items whose place is unknown are assumed to be behind those whose place is known.
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

/**
 * Chooses as the parts of a batch do: among the projects with the fewest open follow-ups, the first item whose job is
 * at rest.
 */
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

/** The slots of a project, taken one after another. */
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

  /** Takes the next slot that is free from `fromMs` on, and returns when that is. */
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
 * How long turns last, estimated from the turns that have ended and those still running (Kaplan-Meier). Counting only
 * the ended ones would favour short turns.
 */
class Turns {
  /** Lengths in ascending order, each with the share of turns that are at most that long. */
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

  /** Draws a length greater than `overMs`. `at`, from 0 to 1, selects which. */
  draw(at: number, overMs: number): number {
    const before = this.#steps.findLast(({ ms }) => ms <= overMs)?.share ?? 0;
    const share = before + at * (1 - before);
    const step = this.#steps.find((each) => each.share >= share && each.ms > overMs);
    return step?.ms ?? Math.max(this.#longestMs, overMs);
  }
}

/** Reproducible numbers from 0 to 1, evenly spread (a linear congruential generator). */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
