import type { BudgetHandle } from '../client/index.js';
import { AUDIT_HEADER, describeBudget, describeSend, noBudgetText } from './budget-text.js';
import { showBudgetWatch } from './budget-view.js';
import { type Cli, interruptible } from './cli.js';
import { ExitCode } from './errors.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up budget show` */
export async function showBudget(cli: Cli, projectId: string, { watch }: { watch?: boolean }): Promise<ExitCode> {
  return withTemporal(cli, async ({ followUps }) => {
    const handle = followUps.budget(projectId);
    if (watch !== true) return showOnce(cli, handle);
    await interruptible(cli, (signal) => showBudgetWatch(cli.output, projectId, handle.watch({ signal })));
    return ExitCode.interrupted;
  });
}

/** `follow-up budget audit` */
export async function auditBudget({ env, output }: Cli, projectId: string): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps }) => {
    const sends = await followUps.budget(projectId).audit();
    if (sends.length === 0) output.note(`project ${projectId} has sent nothing`);
    else if (!output.json) output.data(undefined, AUDIT_HEADER);
    for (const send of sends) output.data(send, describeSend(send));
  });
}

async function showOnce({ output }: Cli, handle: BudgetHandle): Promise<ExitCode> {
  const { projectId } = handle;
  const state = await handle.state();
  const status = state === 'none' ? undefined : await handle.status();
  if (!status) {
    output.data(
      { projectId, state: 'none', used: 0, waiting: [], waitingTotal: 0, lastSends: [] },
      noBudgetText(projectId),
    );
    return ExitCode.ok;
  }
  if (state === 'stopped') {
    output.note(
      `warning: the budget is stopped; nothing is sent until it runs again, with "follow-up budget restore ${projectId}"`,
    );
  }
  output.data({ state, ...status }, describeBudget(status));
  return ExitCode.ok;
}
