/** Seeded pseudo-random numbers. The same seed gives the same numbers on every machine. */
export interface Random {
  /** From 0 to 1, excluding 1. */
  next(): number;
  between(min: number, max: number): number;
  /** Another generator from this one's seed and a label alone, so that a run is repeatable in any order of requests. */
  fork(label: string): Random;
}

/** The mulberry32 generator, public domain (Tommy Ettinger). Good enough for latencies and jitter; not for secrets. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  return {
    next,
    between: (min, max) => min + Math.floor(next() * (max - min + 1)),
    fork: (label) => createRandom(labelledSeed(seed, label)),
  };
}

/**
 * FNV-1a over the label, starting from the seed, with a final avalanche so that similar labels give different seeds.
 */
function labelledSeed(seed: number, label: string): number {
  let hash = (0x811c9dc5 ^ seed) >>> 0;
  for (let index = 0; index < label.length; index++) {
    hash = Math.imul(hash ^ label.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
