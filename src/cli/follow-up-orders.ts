import { type ResolveWord, resolveWords } from '../contract/choices.js';
import type { Cli } from './cli.js';
import { UsageError } from './errors.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up cancel` */
export async function cancel({ env, output }: Cli, workflowId: string): Promise<void> {
  await withTemporal({ env, output }, ({ followUps }) => followUps.handle(workflowId).cancel());
  output.data({ workflowId, cancelRequested: true }, `asked ${workflowId} to end`);
}

/** `follow-up poll-now` */
export async function pollNow({ env, output }: Cli, workflowId: string): Promise<void> {
  await withTemporal({ env, output }, ({ followUps }) => followUps.handle(workflowId).pollNow());
  output.data({ workflowId, pollRequested: true }, `asked ${workflowId} to look at its job`);
}

/** `follow-up resolve` */
export async function resolve({ env, output }: Cli, workflowId: string, word: string): Promise<void> {
  if (!isResolveWord(word)) {
    throw new UsageError(`word: must be ${resolveWords.join(' or ')} (given ${JSON.stringify(word)})`);
  }
  await withTemporal({ env, output }, ({ followUps }) => followUps.handle(workflowId).resolve(word));
  output.data({ workflowId, resolved: word }, `${workflowId} takes it as ${word}`);
}

function isResolveWord(word: string): word is ResolveWord {
  return (resolveWords as readonly string[]).includes(word);
}
