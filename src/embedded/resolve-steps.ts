import type { OnProgress } from './environment.js';

/** Where a binary was found. */
export type BinarySource = 'setting' | 'path' | 'cache' | 'sdk-download' | 'go-install' | 'maven';

const FETCHING: readonly BinarySource[] = ['sdk-download', 'go-install', 'maven'];

/** An executable that is ready to run. */
export interface ResolvedBinary {
  /** Absolute path. */
  path: string;
  source: BinarySource;
}

/** One place to look at. Throws an error that says why it has nothing. */
export interface ResolveStep {
  /** For people, such as `the SDK's own download`. */
  name: string;
  source: BinarySource;
  run: () => Promise<string>;
}

/** A step has nothing, which is no news: it is told only once something has to be fetched. */
export class NotHereError extends Error {
  override readonly name = 'NotHereError';
}

/** Why one step gave nothing. */
export interface FailedStep {
  name: string;
  reason: string;
}

/** No step gave a binary. The message is one line with every step, its reason, and what to do. */
export class BinaryUnavailableError extends Error {
  override readonly name = 'BinaryUnavailableError';

  constructor(
    readonly what: string,
    readonly failedSteps: readonly FailedStep[],
    readonly mend: string,
  ) {
    const reasons = failedSteps.map(({ name, reason }) => `${name}: ${reason}`).join('; ');
    super(`${what} cannot be had. Tried ${reasons}. ${mend}`);
  }
}

/**
 * Takes the steps in order until one gives a path.
 *
 * @throws {@link BinaryUnavailableError} when none does
 */
export async function resolveBinary(
  what: string,
  steps: readonly ResolveStep[],
  mend: string,
  onProgress: OnProgress | undefined,
): Promise<ResolvedBinary> {
  const failedSteps: FailedStep[] = [];
  const notTold: string[] = [];
  const tellAll = () => notTold.splice(0).forEach((message) => onProgress?.(message));
  for (const { name, source, run } of steps) {
    if (FETCHING.includes(source)) tellAll();
    try {
      return { path: await run(), source };
    } catch (error) {
      const reason = (error instanceof Error ? error.message : String(error)).replace(/\s*\n\s*/g, ' ');
      failedSteps.push({ name, reason });
      notTold.push(`${what}: ${name}: ${reason}`);
      if (!(error instanceof NotHereError)) tellAll();
    }
  }
  throw new BinaryUnavailableError(what, failedSteps, mend);
}
