import type { ListedBudget } from '../client/index.js';
import { fewAtATime } from '../client/few-at-a-time.js';
import { isOverdue } from '../client/live-progress.js';
import type { FollowUpSummary } from '../client/summary.js';
import { lookAtProgress } from '../client/watch.js';
import { projectBudgetWorkflowId } from '../contract/index.js';
import { type Check, isFinding } from './doctor-check.js';
import { judgeBudget, silentBudget } from './doctor-work.js';
import { describeUpdate, wayOut } from './follow-up-text.js';
import type { TemporalSession } from './temporal-session.js';

/** What is known without asking the follow-ups themselves. */
interface Known {
  budgets: readonly ListedBudget[];
  /** Follow-ups that are blocked, or of which it is not known whether their message was delivered. */
  followUps: readonly FollowUpSummary[];
  /** What the doctor finds to stand. */
  standing: readonly Check[];
  hasWorkers: boolean;
}

/** Blocked follow-ups that are asked why: each question costs a worker a query. */
const MOST_ASKED = 10;

/** Everything that waits for a person: first what holds up whole projects and batches, then follow-ups one by one. */
export async function findNeeds(session: TemporalSession, known: Known): Promise<Check[]> {
  const { budgets, followUps, standing, hasWorkers } = known;
  const stands = new Set(standing.map(({ subject }) => subject));
  const ofBudgets = budgets.flatMap((budget) => (budget.status ? judgeBudget(budget.status) : [silentBudget(budget)]));
  const projectWide = [
    ...standing,
    // What keeps a budget from answering says more than that it does not answer.
    ...ofBudgets.filter((check) => isFinding(check) && !(check.name === 'silent budget' && stands.has(check.subject))),
  ];
  const doubtful = followUps.filter(({ state }) => state !== 'blocked').map(judgeDoubtful);
  const blocked = hasWorkers ? await explainBlocked(session, known) : [];
  return [...projectWide, ...doubtful, ...overdueIn(budgets), ...blocked];
}

function judgeDoubtful({ workflowId, projectId, jobId, state, batchId, startedAt, endedAt }: FollowUpSummary): Check {
  const isOpen = state === 'reconciling';
  const again =
    batchId === undefined
      ? `follow-up send ${projectId} ${jobId} --prompt …`
      : `follow-up batch retry ${batchId} --only unknown`;
  return {
    name: 'follow-up',
    subject: workflowId,
    status: isOpen ? 'warning' : 'error',
    message: isOpen
      ? `${workflowId} is finding out whether its message was delivered`
      : `${workflowId} has ended, and whether its message was delivered is not known`,
    since: endedAt ?? startedAt,
    mend: isOpen
      ? `wait about 3 minutes, or look at the job, then: follow-up resolve ${workflowId} sent (or notSent)`
      : `look at the job; where the message is not there: ${again}`,
  };
}

/** Follow-ups that their budget has called, and that have not come. */
function overdueIn(budgets: readonly ListedBudget[]): Check[] {
  const nowMs = Date.now();
  return budgets
    .flatMap(({ status }) => status?.waiting ?? [])
    .filter(({ calledAt }) => isOverdue(calledAt, nowMs))
    .map(({ workflowId, calledAt = '' }) => ({
      name: 'follow-up',
      subject: workflowId,
      status: 'warning',
      message: `${workflowId} is overdue: its budget has woken it, but no worker has picked that up yet`,
      since: calledAt,
      mend: `follow-up status ${workflowId}`,
    }));
}

/** Blocked follow-ups, but for those whose budget is paused or silent: one line stands for all of these. */
async function explainBlocked({ followUps: client }: TemporalSession, known: Known): Promise<Check[]> {
  const isHeldUp = (projectId: string) => {
    const budget = known.budgets.find((each) => each.projectId === projectId);
    const budgetId = projectBudgetWorkflowId(projectId);
    return (
      !budget?.status ||
      budget.status.paused !== undefined ||
      known.standing.some(({ subject }) => subject === budgetId)
    );
  };
  const blocked = known.followUps.filter(({ state, projectId }) => state === 'blocked' && !isHeldUp(projectId));
  const asked = await fewAtATime(blocked.slice(0, MOST_ASKED), async (summary): Promise<Check[]> => {
    const { workflowId, startedAt } = summary;
    const live = await lookAtProgress(client.handle(workflowId));
    // It goes on by itself, or has gone on already.
    if (live.progress && (live.progress.state !== 'blocked' || live.progress.waitReason === 'queue-full')) return [];
    return [
      {
        name: 'follow-up',
        subject: workflowId,
        status: 'warning',
        message: `${workflowId} is ${describeUpdate({ summary, ...live }).headline}`,
        since: live.progress?.learnedAt ?? startedAt,
        mend: wayOut(live.progress, workflowId) || `follow-up status ${workflowId}`,
      },
    ];
  });
  return asked.flat();
}
