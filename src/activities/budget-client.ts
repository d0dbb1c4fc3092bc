import { setTimeout as delay } from 'node:timers/promises';
import {
  Client,
  type ConnectionLike,
  WithStartWorkflowOperation,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { ASKS_APART_MS, REPORTS_APART_MS } from '../budget/limits.js';
import { mayPass, restoreAfterReset, wakeBlockedFollowUps } from '../client/budget-restore.js';
import { fewAtATime } from '../client/temporal-call.js';
import { budgetTaskQueue, projectBudgetWorkflowId, WorkflowType } from '../contract/index.js';
import {
  type AcquireAnswer,
  type AcquireRequest,
  acquireUpdate,
  type BudgetSettings,
  type BudgetWord,
  MAX_WORDS_PER_REPORT,
  type ProjectBudgetInput,
  reportSignal,
  wakeSignal,
} from '../contract/protocol.js';
import { describeGrpcError, GrpcStatus, grpcStatusOf } from '../temporal/grpc.js';
import {
  ALONG_FOR_MS,
  ASK_FOR_MS,
  askAgainAfterMs,
  asksSilentBudgetAtMs,
  ENOUGH_FOR_REPORT,
  toldAfterMs,
} from './ask-again.js';
import { createCoalescer } from './coalescer.js';
import { type LetGo, Patience } from './patience.js';

const CALL_DEADLINE_MS = 10_000;

/** Deadline of the call that finds out whether a silent budget answers again. */
const PROBE_DEADLINE_MS = 3_000;

/** Wait of a follow-up whose budget is slow while enough others wait for its answer. */
const SLOW_WAIT_MS = 5_000;

/** Most follow-ups of one project that are woken individually when their budget answers again. */
const MOST_TOLD = 10_000;

/**
 * Asks of one project share calls: the server allows 10 updates in flight per workflow and 2,000 per run, and each
 * costs a workflow task. Two calls in flight per worker leave room for five workers.
 */
const MAX_CALLS_IN_FLIGHT = 2;
const MAX_ASKS_PER_CALL = 50;

/** Longest wait of a word until it leaves, and again for its own call. */
const REPORT_DEADLINE_MS = 5_000;

/** Wait while a budget is terminated and nobody has restored it. */
const BUDGET_STOPPED_WAIT_MS = 60_000;

/**
 * Answers of the server after which the budget certainly has not heard the ask, and which repeating would not change.
 */
const REFUSALS: readonly (number | undefined)[] = [
  GrpcStatus.invalidArgument,
  GrpcStatus.permissionDenied,
  GrpcStatus.unauthenticated,
  GrpcStatus.unimplemented,
];

export interface Ask {
  answer: AcquireAnswer;
  /**
   * Whether the budget itself answered. `false`: this side made up the answer because the budget could not be asked.
   */
  proven: boolean;
}

/** How an activity talks to a project's budget. */
export interface BudgetClient {
  /**
   * Asks for a slot and the job's turn, and starts the budget if it does not run yet. A call that fails is repeated
   * with the same token, because the budget may have granted it: a server under load was seen to answer
   * FAILED_PRECONDITION and RESOURCE_EXHAUSTED to asks that the budget had granted, and a later attempt with another
   * token could only wait for the lease to end. This never throws. If the budget does not answer (see `Patience`), the
   * answer is a wait that proves nothing.
   *
   * @param forMs how long it may take. @default 28 s
   */
  acquire(projectId: string, request: AcquireRequest, forMs?: number): Promise<Ask>;
  /**
   * Tells the budget something within 15 s. Returns whether there is a running budget. This is at least once: a word
   * whose call failed may have been heard. A terminated budget that `budget restore` restores does not have this word.
   * If that was a settle, the slot is held longer, and the follow-up's `finish` supplies the outcome.
   *
   * @param how.isUrgent whether the word leaves at once: with the asks that wait, or by a signal. `keyRead` is never
   * urgent
   * @throws the server's error, or an error that it does not answer
   */
  tell(projectId: string, word: BudgetWord, how: { isUrgent: boolean }): Promise<boolean>;
  /**
   * To be called at the end. Wakes the follow-ups that were told of a silence, as many as it can within five seconds,
   * and resolves when every word is told, or cannot be.
   */
  allTold(): Promise<void>;
}

export interface BudgetClientOptions {
  /**
   * Connection only for asks, made with `interceptors: []`: the default interceptor would retry `ResourceExhausted`
   * until the deadline.
   */
  acquireConnection: ConnectionLike;
  connection: ConnectionLike;
  namespace: string;
  taskQueue: string;
  /** Settings of a budget that does not exist yet. */
  settings: BudgetSettings;
  /** Called when a project's budget stops answering, with the reason, and with `undefined` when it answers again. */
  onSilence?: (projectId: string, reason: string | undefined) => void;
}

/** The budget of every project, on one Temporal namespace. */
export function createBudgetClient(options: BudgetClientOptions): BudgetClient {
  const { acquireConnection, connection, namespace, settings } = options;
  const { workflow: asking } = new Client({ connection: acquireConnection, namespace });
  const telling = new Client({ connection, namespace });
  const taskQueue = budgetTaskQueue(options.taskQueue);

  const lines = new Map<string, Line>();
  /**
   * Projects whose budgets have answered this process. Before that, another process may have told follow-ups that their
   * budget is silent.
   */
  const heard = new Set<string>();

  async function askAll(
    projectId: string,
    requests: AcquireRequest[],
    words: WordNow[],
    deadlineMs = CALL_DEADLINE_MS,
  ) {
    const input: ProjectBudgetInput = { projectId, settings };
    const ask = {
      args: [requests, words.map((word) => word())] as [AcquireRequest[], BudgetWord[]],
      startWorkflowOperation: new WithStartWorkflowOperation(WorkflowType.projectBudget, {
        workflowId: projectBudgetWorkflowId(projectId),
        taskQueue,
        args: [input],
        // A budget whose last run is closed has lost nothing yet. An empty one in its place would have.
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        workflowIdConflictPolicy: 'USE_EXISTING',
        staticSummary: `Message budget of project ${projectId}`,
      }),
    };
    return acquireConnection.withDeadline(Date.now() + deadlineMs, () =>
      asking.executeUpdateWithStart(acquireUpdate, ask),
    );
  }

  const ask = createCoalescer({
    call: (projectId: string, requests: AcquireRequest[]) =>
      report.takeAlong(projectId, { answer: true, forMs: ALONG_FOR_MS }, (words) => askAll(projectId, requests, words)),
    maxCallsInFlight: MAX_CALLS_IN_FLIGHT,
    maxPerCall: MAX_ASKS_PER_CALL,
    apartMs: ASKS_APART_MS,
  });

  /** Signals several words. All get the same answer. */
  async function reportAll(projectId: string, words: WordNow[]): Promise<boolean[]> {
    const handle = telling.workflow.getHandle(projectBudgetWorkflowId(projectId));
    const signal = () => {
      const told = words.map((word) => word());
      return connection.withDeadline(Date.now() + REPORT_DEADLINE_MS, () => handle.signal(reportSignal, told));
    };
    for (;;) {
      try {
        await signal();
        return words.map(() => true);
      } catch (error) {
        if (!(error instanceof WorkflowNotFoundError)) throw error;
        if (!(await isMended(projectId))) return words.map(() => false);
      }
    }
  }

  const reporting = {
    call: reportAll,
    maxCallsInFlight: 1,
    maxPerCall: MAX_WORDS_PER_REPORT,
    apartMs: REPORTS_APART_MS,
    enough: ENOUGH_FOR_REPORT,
  };
  const report = createCoalescer(reporting);
  /**
   * News of the API key replaces older news. It travels with no ask, which may be applied late, so reports stay in order.
   */
  const reportOfKey = createCoalescer(reporting);

  function startTelling(projectId: string, word: BudgetWord, isUrgent: boolean): Promise<boolean> {
    const signal = AbortSignal.timeout(REPORT_DEADLINE_MS);
    const givenAtMs = performance.now();
    const wordNow = () => toldAfterMs(word, performance.now() - givenAtMs);
    if (word.kind === 'keyRead') return reportOfKey(projectId, wordNow, { signal });
    const told = report(projectId, wordNow, { signal, isHeld: isUrgent });
    // Asks that wait to go out take the word along: a follow-up that waits for sends in flight may be granted now.
    if (isUrgent && !ask.hurry(projectId)) report.hurry(projectId);
    return told;
  }

  const untold = new Set<Promise<unknown>>();
  async function tell(projectId: string, word: BudgetWord, { isUrgent }: { isUrgent: boolean }): Promise<boolean> {
    const told = startTelling(projectId, word, isUrgent);
    untold.add(told);
    try {
      return await told;
    } finally {
      untold.delete(told);
    }
  }

  async function allTold(): Promise<void> {
    const handedOver = handOver();
    while (untold.size > 0) await Promise.allSettled(untold);
    await handedOver;
  }

  /**
   * When the silence ends, this process can no longer wake the follow-ups that it told of it. It wakes them now, so that
   * they ask through another worker.
   */
  async function handOver(): Promise<void> {
    const told = [...lines.values()].flatMap((line) => [...line.told]);
    const wake = (workflowId: string) =>
      telling.workflow
        .getHandle(workflowId)
        .signal(wakeSignal)
        // It asks again on its own within an hour.
        .catch(() => undefined);
    await connection.withDeadline(Date.now() + REPORT_DEADLINE_MS, () => fewAtATime(told, wake));
  }

  function lineOf(projectId: string): Line {
    let line = lines.get(projectId);
    if (!line) {
      const made: Line = {
        reason: '',
        comesAgainAtMs: 0,
        told: new Set(),
        patience: new Patience({
          probe: () => probe(projectId),
          onChange(silentForMs) {
            options.onSilence?.(projectId, silentForMs === undefined ? undefined : made.reason);
            if (silentForMs !== undefined) return;
            made.comesAgainAtMs = 0;
            heard.add(projectId);
            void wakeBlockedFollowUps(telling, projectId, made.told);
          },
        }),
      };
      line = made;
      lines.set(projectId, line);
    }
    return line;
  }

  /** An empty ask, which the budget refuses. The refusal is an answer, and leaves nothing behind. */
  async function probe(projectId: string): Promise<void> {
    try {
      await askAll(projectId, [], [], PROBE_DEADLINE_MS);
    } catch (error) {
      const isAnswer =
        error instanceof WorkflowUpdateFailedError || error instanceof WorkflowExecutionAlreadyStartedError;
      if (!isAnswer) throw error;
    }
  }

  /** Asks until there is an answer or `signal` says that nobody waits for it any more. */
  async function askUntilAnswered(
    line: Line,
    projectId: string,
    request: AcquireRequest,
    signal: AbortSignal,
  ): Promise<Ask> {
    for (let timesTurnedAway = 0; ;) {
      try {
        const answer = await ask(projectId, request, { signal });
        line.patience.answered();
        if (!heard.has(projectId)) void wakeBlockedFollowUps(telling, projectId);
        heard.add(projectId);
        return { answer, proven: true };
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof WorkflowExecutionAlreadyStartedError) {
          line.patience.answered();
          const isRunning = await isMended(projectId).catch(() => undefined);
          if (isRunning) continue;
          if (isRunning === false) return { answer: waitAnswer('gate-stopped', BUDGET_STOPPED_WAIT_MS), proven: false };
        }
        line.reason = describeGrpcError(error);
        if (REFUSALS.includes(grpcStatusOf(error)) || isPausedInTemporal(error)) line.patience.fallSilent();
        timesTurnedAway = grpcStatusOf(error) === GrpcStatus.resourceExhausted ? timesTurnedAway + 1 : 0;
        // The budget may have granted it and the answer was lost. Only this token can use the grant.
        await delay(askAgainAfterMs(timesTurnedAway, Math.random()), undefined, { signal });
      }
    }
  }

  const mending = new Map<string, Promise<boolean>>();
  /**
   * Starts a budget that ended itself after a reset again, with what it knew. Returns whether it runs now.
   *
   * @throws the error of a call that may succeed later
   */
  function isMended(projectId: string): Promise<boolean> {
    const target = { client: telling, projectId, taskQueue: options.taskQueue, settings };
    const mended =
      mending.get(projectId) ??
      restoreAfterReset(target)
        .catch((error: unknown) => {
          if (mayPass(error)) throw error;
          return false;
        })
        .finally(() => mending.delete(projectId));
    mending.set(projectId, mended);
    return mended;
  }

  async function acquire(projectId: string, request: AcquireRequest, forMs = ASK_FOR_MS): Promise<Ask> {
    const line = lineOf(projectId);
    try {
      if (!(await line.patience.isBack())) return letGo(line, request, 'silent');
      const over = new AbortController();
      const asked = askUntilAnswered(line, projectId, request, over.signal);
      const ask = await line.patience.wait(asked, forMs);
      if (typeof ask !== 'string') return ask;
      over.abort();
      void asked.then((late) => giveBack(projectId, request, late)).catch(() => undefined);
      return letGo(line, request, ask);
    } finally {
      if (line.patience.isIdle && line.told.size === 0 && lines.get(projectId) === line) lines.delete(projectId);
    }
  }

  function letGo(line: Line, { workflowId }: AcquireRequest, why: LetGo): Ask {
    const random = Math.random();
    if (why === 'slow') return { answer: waitAnswer('slot', SLOW_WAIT_MS * (0.75 + random / 2)), proven: false };
    if (line.told.size < MOST_TOLD) line.told.add(workflowId);
    const nowMs = performance.now();
    const { silentForMs } = line.patience;
    line.comesAgainAtMs = asksSilentBudgetAtMs(nowMs, { silentForMs, lastAtMs: line.comesAgainAtMs, random });
    return { answer: waitAnswer('budget-silent', line.comesAgainAtMs - nowMs), proven: false };
  }

  /**
   * An ask that nobody waits for any more may still be granted. It never sends, and the budget is told so. If that
   * message is lost, the follow-up's next ask says it (`provenNotSent`).
   */
  async function giveBack(projectId: string, request: AcquireRequest, { answer }: Ask): Promise<void> {
    const { workflowId, sendNumber, token } = request;
    if (answer.kind !== 'granted') return;
    await tell(projectId, { kind: 'settle', workflowId, sendNumber, token, outcome: 'notSent' }, { isUrgent: true });
  }

  return { acquire, tell, allTold };
}

/** A word as it is told at the moment of the call. */
type WordNow = () => BudgetWord;

interface Line {
  patience: Patience;
  /** When the follow-up that was last told of the silence asks again, in `performance.now()` time. */
  comesAgainAtMs: number;
  /** Follow-ups that were told that the budget is silent, and have not been woken since. */
  told: Set<string>;
  /** The reason that the latest failed call gave. */
  reason: string;
}

/** The server's answer to updates of a workflow that somebody paused. */
function isPausedInTemporal(error: unknown): boolean {
  return /workflow is paused/i.test(describeGrpcError(error));
}

function waitAnswer(reason: 'gate-stopped' | 'slot' | 'budget-silent', waitMs: number): AcquireAnswer {
  return { kind: 'wait', reason, waitMs: Math.round(waitMs), position: 0, etaMs: null };
}
