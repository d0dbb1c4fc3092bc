import { type ListedBudget, TemporalUnreachableError } from '../client/index.js';
import { listFollowUps, listQuery, take } from '../client/list.js';
import type { FollowUpSummary } from '../client/summary.js';
import { DEFAULT_CALL_TIMEOUT_MS } from '../client/temporal-call.js';
import { fewAtATime } from '../temporal/lookups.js';
import { lookAtProgress, pauseBetweenLooks } from '../client/watches.js';
import { defined } from '../contract/defined.js';
import { type BudgetStatus, type FollowUpState, projectBudgetWorkflowId } from '../contract/index.js';
import { grpcStatusOf } from '../temporal/grpc.js';
import { type Check, isFinding, messageOf } from './doctor-check.js';
import { examineOpenBatches, examineWorkflows, judgeBudget, silentBudget } from './doctor-work.js';
import { describeUpdate, wayOut } from './follow-up-text.js';
import { findIdleQueue, type TemporalSession } from './temporal-session.js';

/** Everything in a namespace that people watch while it works. */
export interface Board {
  address: string;
  namespace: string;
  /** When the shown state was read, ISO 8601; missing before the first answer. */
  asOf?: string;
  /** Why the shown state is out of date or incomplete. */
  trouble?: string;
  projects: BoardProject[];
  /** When the projects were read, if earlier: without a worker no budget answers. */
  projectsAsOf?: string;
  /** What waits for a person, most serious first. */
  needs: Check[];
  /** More follow-ups wait for a person than were examined. */
  isPartial: boolean;
}

/** The budget of a project without its lists. */
export interface BoardProject {
  projectId: string;
  /**
   * Follow-ups that are finding out whether their message was delivered, or ended within the last day without knowing.
   */
  unknown: number;
  status?: Omit<BudgetStatus, 'waiting' | 'lastSends'>;
  /** Why there is no status. */
  statusUnavailable?: string;
}

/** Options of {@link watchBoard}. */
interface BoardOptions {
  /** Time between the end of one look and the start of the next. */
  intervalMs: number;
  signal: AbortSignal;
  /** Resolves with a message if the server does not answer the first call. */
  silence: Promise<string>;
}

/** Most follow-ups that are examined because they may wait for a person. */
const MOST_LISTED = 200;
/** How long a follow-up that ended with unknown delivery is shown. */
const DAY_MS = 86_400_000;
/** Finding blocked workflows takes a call per workflow: not at each look. */
const STANDING_EVERY_MS = 10_000;
/** A person at a terminal learns within a second that Temporal does not answer. */
const LIVE_TIMEOUT_MS = 900;

const NOTHING_KNOWN = { projects: [], needs: [], isPartial: false };

/** What the doctor finds blocked, and when. */
interface Standing {
  atMs: number;
  checks: Check[];
  /** Ids of all blocked workflows, also of those that need nobody. */
  troubled: ReadonlySet<string>;
}

/**
 * Looks at each interval until the signal is aborted, and yields each look. Continues while no worker runs and while
 * Temporal is away: then the board is the last known one, and says why.
 *
 * @throws SearchAttributesMissingError
 */
export async function* watchBoard(
  session: TemporalSession,
  { intervalMs, signal, silence }: BoardOptions,
): AsyncGenerator<Board, void, undefined> {
  const { address, namespace } = session.config;
  const aborted = new Promise<undefined>((resolve) => {
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
  let last: Board = { ...NOTHING_KNOWN, address, namespace };
  let standing: Standing | undefined;
  let early = silence.then((said) => ({ said }));
  while (!signal.aborted) {
    const looking = look(session, { last, standing, timeoutMs: LIVE_TIMEOUT_MS }).catch((error: unknown) => ({
      trouble: troubleIn(error),
    }));
    let found = await Promise.race([looking, early, aborted]);
    if (found && 'said' in found) {
      // It is reported once.
      early = new Promise(() => undefined);
      yield { ...last, trouble: withNextStep(found.said) };
      found = await Promise.race([looking, aborted]);
    }
    if (!found || 'said' in found) {
      // Nothing waits for it any more, and without its connection it fails.
      looking.catch(() => undefined);
      return;
    }
    if ('trouble' in found) last = { ...last, trouble: found.trouble };
    else ({ board: last, standing } = found);
    yield last;
    await pauseBetweenLooks(intervalMs, signal);
  }
}

/**
 * Looks once.
 *
 * @throws TemporalUnreachableError, SearchAttributesMissingError
 */
export async function readBoard(session: TemporalSession): Promise<Board> {
  const { address, namespace } = session.config;
  const last = { ...NOTHING_KNOWN, address, namespace };
  return (await look(session, { last, timeoutMs: DEFAULT_CALL_TIMEOUT_MS })).board;
}

async function look(
  session: TemporalSession,
  { last, standing: known, timeoutMs }: { last: Board; standing?: Standing | undefined; timeoutMs: number },
): Promise<{ board: Board; standing: Standing }> {
  const { config, followUps } = session;
  const asOf = new Date();
  const idleQueue = await findIdleQueue(session, timeoutMs);
  const hasWorkers = idleQueue === undefined;
  const isFresh = known !== undefined && asOf.getTime() - known.atMs < STANDING_EVERY_MS;
  const [budgets, listed, standing] = await Promise.all([
    // Without a worker each query would wait for its deadline.
    hasWorkers ? take(followUps.budgets()) : [],
    listDoubtful(session, asOf),
    isFresh ? known : findStanding(session, hasWorkers, asOf.getTime()),
  ]);
  const projects = budgets.map((budget) => toProject(budget, listed.followUps));
  projects.sort((one, other) => one.projectId.localeCompare(other.projectId, 'en'));
  const before = last.projects.length === 0 ? undefined : (last.projectsAsOf ?? last.asOf);
  const board = {
    address: config.address,
    namespace: config.namespace,
    asOf: asOf.toISOString(),
    ...(!hasWorkers && { trouble: withNextStep(`no worker polls task queue ${idleQueue}`) }),
    ...(hasWorkers ? { projects } : { projects: last.projects, ...defined({ projectsAsOf: before }) }),
    needs: await findNeeds(session, { budgets, followUps: listed.followUps, standing, hasWorkers }),
    isPartial: listed.isPartial,
  };
  return { board, standing };
}

/** The message for a failed look. */
function troubleIn(error: unknown): string {
  if (!(error instanceof TemporalUnreachableError) && grpcStatusOf(error) === undefined) throw error;
  return withNextStep(messageOf(error));
}

function withNextStep(what: string): string {
  return `${what}; run follow-up doctor`;
}

async function findStanding(session: TemporalSession, hasWorkers: boolean, atMs: number): Promise<Standing> {
  const [{ checks, troubled }, handOvers] = await Promise.all([
    examineWorkflows(session),
    hasWorkers ? examineOpenBatches(session) : [],
  ]);
  return { atMs, checks: [...checks, ...handOvers].filter(isFinding), troubled };
}

/** Follow-ups that are blocked, or whose delivery is unknown. */
async function listDoubtful(
  { client }: TemporalSession,
  now: Date,
): Promise<{ followUps: FollowUpSummary[]; isPartial: boolean }> {
  const isIn = (state: FollowUpState) => listQuery({ state });
  const since = new Date(now.getTime() - DAY_MS).toISOString();
  const queries = [
    `${isIn('delivery-unknown')} AND CloseTime >= '${since}'`,
    `${isIn('reconciling')} AND ExecutionStatus = 'Running'`,
    `${isIn('blocked')} AND ExecutionStatus = 'Running'`,
  ];
  const followUps: FollowUpSummary[] = [];
  for (const query of queries) {
    for await (const followUp of listFollowUps(client, query)) {
      if (followUps.length >= MOST_LISTED) return { followUps, isPartial: true };
      followUps.push(followUp);
    }
  }
  return { followUps, isPartial: false };
}

function toProject(
  { projectId, status, statusUnavailable }: ListedBudget,
  doubtful: readonly FollowUpSummary[],
): BoardProject {
  const unknown = doubtful.filter(
    (followUp) => followUp.projectId === projectId && followUp.state !== 'blocked',
  ).length;
  if (!status) return { projectId, unknown, statusUnavailable: statusUnavailable ?? 'it has not begun' };
  const { waiting: _waiting, lastSends: _lastSends, ...counts } = status;
  return { projectId, unknown, status: counts };
}

/** What is known without querying the follow-ups. */
interface Known {
  budgets: readonly ListedBudget[];
  /** Follow-ups that are blocked, or whose delivery is unknown. */
  followUps: readonly FollowUpSummary[];
  /** What the doctor finds blocked. */
  standing: Standing;
  hasWorkers: boolean;
}

/** Most blocked follow-ups that are queried for the reason. */
const MOST_ASKED = 10;

/** Everything that waits for a person: first what blocks whole projects and batches, then single follow-ups. */
async function findNeeds(session: TemporalSession, known: Known): Promise<Check[]> {
  const { budgets, followUps, standing, hasWorkers } = known;
  const ofBudgets = budgets.flatMap((budget) => (budget.status ? judgeBudget(budget.status) : [silentBudget(budget)]));
  const projectWide = [
    ...standing.checks,
    // The reason why a budget does not answer says more than its silence.
    ...ofBudgets.filter(
      (check) => isFinding(check) && !(check.name === 'silent budget' && standing.troubled.has(check.subject ?? '')),
    ),
  ];
  const doubtful = followUps.filter(({ state }) => state !== 'blocked').map(judgeDoubtful);
  const blocked = hasWorkers ? await explainBlocked(session, known) : [];
  return [...projectWide, ...doubtful, ...blocked];
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
    fix: isOpen
      ? `wait about 3 minutes, or look at the job, then: follow-up resolve ${workflowId} sent (or notSent)`
      : `look at the job; where the message is not there: ${again}`,
  };
}

/** Blocked follow-ups, except those whose budget is paused, counts or is silent: one line covers all of these. */
async function explainBlocked({ followUps: client }: TemporalSession, known: Known): Promise<Check[]> {
  const isHeldUp = (projectId: string) => {
    const budget = known.budgets.find((each) => each.projectId === projectId);
    const budgetId = projectBudgetWorkflowId(projectId);
    return (
      !budget?.status ||
      budget.status.paused !== undefined ||
      budget.status.isCounting === true ||
      known.standing.checks.some(({ subject }) => subject === budgetId)
    );
  };
  const blocked = known.followUps.filter(({ state, projectId }) => state === 'blocked' && !isHeldUp(projectId));
  const asked = await fewAtATime(blocked.slice(0, MOST_ASKED), async (summary): Promise<Check[]> => {
    const { workflowId, startedAt } = summary;
    const live = await lookAtProgress(client.handle(workflowId));
    // It continues on its own, or has continued already.
    if (live.progress && (live.progress.state !== 'blocked' || live.progress.waitReason === 'queue-full')) return [];
    return [
      {
        name: 'follow-up',
        subject: workflowId,
        status: 'warning',
        message: `${workflowId} is ${describeUpdate({ summary, ...live }).headline}`,
        since: live.progress?.learnedAt ?? startedAt,
        fix: wayOut(live.progress, workflowId) || `follow-up status ${workflowId}`,
      },
    ];
  });
  return asked.flat();
}
