import type { BudgetUpdate } from '../client/index.js';
import { describeBudgetUpdate, summariseBudgetUpdate } from './budget-text.js';
import { isLive, type Output } from './cli.js';
import { showLive } from './live-view.js';

/**
 * Shows what a watch of a budget sees until it ends: redrawn in place on a terminal, else a line whenever something
 * changes; with `--json` a document a change.
 */
export async function showBudgetWatch(
  output: Output,
  projectId: string,
  updates: AsyncIterable<BudgetUpdate>,
): Promise<void> {
  const { json, stdout } = output;
  if (!json && isLive(stdout)) {
    await showLive(output, stdout, updates, (update) => describeBudgetUpdate(projectId, update));
    return;
  }
  let shown: string | undefined;
  for await (const update of updates) {
    const line = summariseBudgetUpdate(projectId, update);
    if (!output.json && line === shown) continue;
    shown = line;
    output.data({ projectId, ...update }, line);
  }
}
