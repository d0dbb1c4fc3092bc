import type { ListedBudget } from '../client/index.js';
import { formatDuration } from '../contract/index.js';
import { stateOf } from './budget-text.js';
import type { Cli } from './cli.js';
import { safeLine } from './safe-text.js';
import { withTemporal } from './temporal-session.js';

const HEADER = toRow('project', 'used', 'waiting', 'state');

/** `follow-up budget list` */
export async function listBudgets({ env, output }: Cli): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps }) => {
    let count = 0;
    for await (const budget of followUps.budgets()) {
      if (count++ === 0 && !output.json) output.data(undefined, HEADER);
      output.data(toJson(budget), describeListed(budget));
    }
    if (count === 0) output.note('no budget runs; each project gets its own with its first follow-up');
  });
}

/** Without the lists: one line for each of perhaps a thousand projects. */
function toJson({ projectId, workflowId, status, statusUnavailable }: ListedBudget): object {
  if (!status) return { projectId, workflowId, statusUnavailable };
  const { waiting: _waiting, lastSends: _lastSends, ...counts } = status;
  return { workflowId, ...counts };
}

function describeListed({ projectId, status, statusUnavailable }: ListedBudget): string {
  if (!status) return toRow(projectId, '?', '?', `does not answer: ${statusUnavailable ?? 'it has not begun'}`);
  const { used, limit, windowMs, waitingTotal } = status;
  const slots = `${used} of ${limit} in ${formatDuration(windowMs)}`;
  return toRow(projectId, slots, String(waitingTotal), stateOf(status));
}

function toRow(project: string, used: string, waiting: string, state: string): string {
  return [project.padEnd(24), used.padEnd(18), waiting.padStart(7), safeLine(state)].join('  ');
}
