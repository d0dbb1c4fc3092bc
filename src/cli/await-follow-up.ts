import type { FollowUpHandle } from '../client/index.js';
import type { FollowUpResult } from '../contract/index.js';
import { describeUpdate, summariseResult } from './follow-up-text.js';
import type { ProgressRow } from './progress-view.js';

/** A follow-up that is waited for. Its result, or why there is none, is there once its row has been shown. */
export interface AwaitedFollowUp {
  row: ProgressRow;
  /** @throws what `FollowUpHandle.result` throws, or the signal's reason */
  outcome: () => FollowUpResult;
}

/** Makes a row of a follow-up that shows its progress until it ends, or the signal is aborted. */
export function awaitFollowUp(label: string, followUp: FollowUpHandle, signal: AbortSignal): AwaitedFollowUp {
  let settled: { result: FollowUpResult } | { error: unknown } = { error: new Error('not waited for') };
  const wait = async (report: Parameters<ProgressRow['work']>[0]) => {
    for await (const update of followUp.watch({ signal })) report(describeUpdate(update));
    return followUp.result({ signal });
  };
  return {
    row: {
      label,
      work: async (report) => {
        try {
          const result = await wait(report);
          settled = { result };
          return summariseResult(result);
        } catch (error) {
          settled = { error };
          throw error;
        }
      },
    },
    outcome: () => {
      if ('error' in settled) throw settled.error;
      return settled.result;
    },
  };
}
