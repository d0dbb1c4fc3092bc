import { createRandom, type Random } from '../src/simulator/random.js';

/** The randomness of one seed. */
export class Chance {
  readonly #random: Random;

  constructor(seed: number) {
    // Neighbouring seeds must not give neighbouring generator states.
    this.#random = createRandom(Math.imul(seed, 7_919) + 17);
  }

  /** Whether something of the given probability happens. */
  happens(probability: number): boolean {
    return this.#random.next() < probability;
  }

  /** A number from `min` up to, not including, `max`. */
  between(min: number, max: number): number {
    return min + this.#random.next() * (max - min);
  }

  /** A whole number from `min` up to `max`, both included. */
  whole(min: number, max: number): number {
    return Math.floor(this.between(min, max + 1));
  }
}
