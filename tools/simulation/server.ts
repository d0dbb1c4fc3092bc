import { ApplicationFailure, TimeoutFailure } from '@temporalio/common';
import { msToNumber } from '@temporalio/common/lib/time.js';
import type { FollowUpSignal } from '../../src/budget/budget.js';
import { countOnce, type ListedFollowUp } from '../../src/budget/counting.js';
import { defined } from '../../src/common/index.js';
import { Failed } from '../../src/follow-up/failed.js';
import { outcomeOf } from './client.js';
import type { Log } from './log.js';
import {
  type Activity,
  type ActivityOptions,
  type Code,
  ContinueAsNew,
  type Happened,
  type Host,
  type Outcome,
  Run,
} from './runs.js';
import { BUDGET_ID, type World } from './world.js';

/** A worker process, as the server and whoever strikes it know it. */
export interface WorkerProcess {
  readonly settings: { leaseMs: number; drainMs: number; offsetMs: number };
  readonly isReady: boolean;
  execute(
    activity: Activity,
    info: object,
    beat: (details: unknown) => void,
    end: (end: Outcome) => void,
  ): () => boolean;
  die(drainMs: number, backAfterMs: number): Promise<void>;
  freeze(ms: number, isMachine: boolean): void;
}

/** A Temporal server: runs with their tasks, activities, signals, updates, children and resets. */
export class Server implements Host {
  readonly runs = new Map<string, Run[]>();
  readonly workers: WorkerProcess[] = [];
  /** Until when no worker takes a task of these workflows. */
  readonly stalledUntilMs = { budget: 0, others: 0 };
  /** Workflows that were reset after their end. */
  readonly restarted = new Set<string>();
  onActivity: (activity: Activity) => void = () => undefined;
  /** Calls that wait for the end of a workflow. */
  readonly #watchers = new Map<string, { run: Run; id: number }[]>();
  #ids = 0;

  /** @param offsetMs how much the clock of the host that has the budget differs */
  constructor(
    readonly world: World,
    readonly log: Log,
    private readonly offsetMs: number,
    readonly faults: () => { late: number; doubled: number; lost: number; undone: number },
  ) {}

  latest = (workflowId: string): Run | undefined => this.runs.get(workflowId)?.at(-1);
  running = (workflowId: string): Run | undefined => this.runs.get(workflowId)?.find((run) => run.status === 'running');
  offsetOf = (workflowId: string): number => (workflowId === BUDGET_ID ? this.offsetMs : 0);

  start(workflowId: string, code: Code, before?: unknown, inbox: readonly Happened[] = []): void {
    const startedAtMs = Math.floor(this.world.nowMs + this.offsetOf(workflowId));
    const runId = `run${++this.#ids}`;
    this.#add(new Run(this, workflowId, runId, startedAtMs, code, runId, before), inbox);
  }

  /** Returns whether the run takes it. */
  deliver(run: Run | undefined, event: Happened): boolean {
    if (run?.status !== 'running') return false;
    run.inbox.push(event);
    this.plan(run);
    return true;
  }

  deliverByName(workflowId: string, name: string, input?: unknown, reply?: (value: unknown) => void): boolean {
    return this.deliver(this.running(workflowId), { name, input: structuredClone(input), ...(reply && { reply }) });
  }

  close(run: Run | undefined, status: Exclude<Run['status'], 'running'>, end: Outcome = {}): void {
    if (run?.status !== 'running') return;
    const isContinued = end.value instanceof ContinueAsNew;
    Object.assign(run, { status: isContinued ? 'continued' : status, closedAtMs: this.world.nowMs, end });
    this.world.note('close', run.workflowId, run.runId, run.status, end.error?.message ?? '');
    for (const activity of run.activities) activity.end();
    this.log.closed(run);
    if (end.value instanceof ContinueAsNew) this.start(run.workflowId, run.code, end.value.state, run.inbox);
    else this.#tellWatchers(run);
  }

  delete(workflowId: string): void {
    this.close(this.running(workflowId), 'terminated');
    this.runs.delete(workflowId);
  }

  /** Starts a run that goes on from what was written `before` a step of another. Later signals and updates come again. */
  async reset(run: Run, before: number): Promise<void> {
    const { workflowId } = run;
    // A reset can repeat the task that closed the run, but not begin after it.
    const last = ['running', 'terminated'].includes(run.status) ? run.tasks.length : run.tasks.length - 1;
    const kept = run.tasks.slice(0, Math.min(before, last)).findLastIndex(({ endsTask }) => endsTask) + 1;
    const all = this.runs.get(workflowId) ?? [];
    const later = all.slice(all.indexOf(run)).flatMap((each) => each.tasks.slice(each === run ? kept : 0));
    const again = [...later.flatMap(({ events }) => events), ...(all.at(-1)?.inbox ?? [])];
    if (!this.running(workflowId)) this.restarted.add(workflowId);
    // Who waits for its end waits for that of the next run.
    const watchers = this.#watchers.get(workflowId) ?? [];
    this.#watchers.delete(workflowId);
    this.close(this.running(workflowId), 'terminated');
    this.#watchers.set(workflowId, watchers);
    const next = run.copy(`run${++this.#ids}`, kept);
    this.world.note('reset', workflowId, run.runId, 'after', kept, 'as', next.runId);
    if (kept > 0) await next.replay(run.inputs);
    const isKept = (event: Happened) => 'name' in event && event.name !== 'cancel';
    this.#add(next, again.filter(isKept));
  }

  #add(run: Run, inbox: readonly Happened[]): void {
    this.runs.set(run.workflowId, [...(this.runs.get(run.workflowId) ?? []), run]);
    run.inbox.push(...inbox);
    this.plan(run);
  }

  /** A worker will take the next workflow task of the run. */
  plan(run: Run, ms = this.world.chance.between(3, 30)): void {
    if (run.isTaskDue) return;
    run.isTaskDue = true;
    this.world.after(ms, async () => {
      run.isTaskDue = false;
      if (run.status !== 'running') return;
      const stallMs = this.stalledUntilMs[run.workflowId === BUDGET_ID ? 'budget' : 'others'] - this.world.nowMs;
      if (stallMs > 0) return this.plan(run, stallMs + 1);
      await run.task(Math.floor(this.world.nowMs + this.offsetOf(run.workflowId)));
      if (run.inbox.length > 0) this.plan(run);
    });
  }

  /** The end of a child, if its parent runs at that time; also for a run that a reset makes of the parent. */
  watchEnd(run: Run, id: number, workflowId: string): () => void {
    const child = this.latest(workflowId);
    if (child?.status === 'running') {
      this.#watchers.set(workflowId, [...(this.#watchers.get(workflowId) ?? []), { run, id }]);
      return () => undefined;
    }
    const { closedAtMs = Infinity } = child ?? {};
    const wasHeard = (each: Run) => each.startedAtMs <= closedAtMs && closedAtMs < each.closedAtMs;
    if (child && this.runs.get(run.workflowId)?.some(wasHeard)) this.deliver(run, { id, value: outcomeOf(child) });
    return () => undefined;
  }

  #tellWatchers(child: Run): void {
    const value = outcomeOf(child);
    for (const { run, id } of this.#watchers.get(child.workflowId) ?? []) this.deliver(run, { id, value });
    this.#watchers.delete(child.workflowId);
  }

  signalFromBudget(from: Run, id: number, { workflowId, reply }: FollowUpSignal): () => void {
    const { world, log } = this;
    const { late, doubled, lost } = this.faults();
    const name = reply ? 'reply' : 'wake';
    log.count('signals', workflowId);
    const isLost = world.chance.happens(lost);
    const travelMs = () => (world.chance.happens(late) ? world.chance.between(0, 5_000) : world.chance.between(2, 40));
    let wasFound = false;
    const deliver = () => (wasFound = this.deliverByName(workflowId, name, reply) || wasFound);
    if (world.chance.happens(doubled)) world.after(travelMs(), deliver);
    return world.after(travelMs(), () => {
      if (from.status !== 'running' && world.chance.happens(0.5)) return;
      const isFound = isLost || deliver();
      world.note('signal', workflowId, JSON.stringify(reply ?? name), isFound ? '' : 'not found');
      if (!isFound || isLost) log.givenBack.add(workflowId);
      this.deliver(from, { id, value: isFound });
    });
  }

  /** Temporal's list of follow-ups, as it was a while ago. */
  list({ sinceMs }: { sinceMs: number }): ListedFollowUp[] {
    const shownMs = this.world.nowMs - this.world.chance.between(0, 3_000);
    const followUps = [...this.runs.values()].flat().filter(({ workflowId }) => workflowId.startsWith('follow-up/'));
    const found = followUps.flatMap(({ workflowId, startedAtMs, closedAtMs, states, end }) => {
      const { state = '', sentAtMs: lastMs } = states.findLast(({ atMs }) => atMs <= shownMs) ?? {};
      const isRunning = closedAtMs > shownMs;
      const isWaiting = isRunning && /^(waiting|blocked)/.test(state);
      const sentAtMs = isWaiting && (lastMs ?? 0) < sinceMs ? undefined : lastMs;
      const isUnsent = end.error instanceof Failed && end.error.delivered === 'no';
      const isShown = isWaiting || sentAtMs !== undefined || /^(sending|reconciling|polling)/.test(state);
      const isListed = isRunning ? isShown : closedAtMs >= sinceMs && sentAtMs !== undefined && !isUnsent;
      return isListed && startedAtMs <= shownMs
        ? { workflowId, isRunning, isWaiting, closedAtMs: isRunning ? Infinity : closedAtMs, ...defined({ sentAtMs }) }
        : [];
    });
    return countOnce(found);
  }

  startActivity(run: Run, id: number, name: string, input: unknown, options: ActivityOptions): () => void {
    const end = (outcome?: Outcome) => {
      if (activity.isOver) return;
      activity.isOver = true;
      run.activities.delete(activity);
      stop();
      if (!outcome) return;
      const { value, error } = outcome;
      this.world.note('activity', run.workflowId, run.runId, name, error ? error.message : JSON.stringify(value));
      this.deliver(run, { id, ...(error ? { error } : { value: structuredClone(value) }) });
    };
    const states = { details: undefined, wasReset: false, isOver: false };
    const activity: Activity = { run, name, input: structuredClone(input), options, ...states, end };
    const tooLate = () => end({ error: new Error('scheduleToClose') });
    const stop = this.world.after(options.wholeMs ?? Infinity, tooLate);
    run.activities.add(activity);
    this.onActivity(activity);
    void this.#perform(activity);
    return () => end();
  }

  async #perform(activity: Activity): Promise<void> {
    const { world } = this;
    const { isLocal, attempts = Infinity, wholeMs = Infinity, retryMs = [0, 0] } = activity.options;
    const info = { attempt: 1, scheduledTimestampMs: world.nowMs, currentAttemptScheduledTimestampMs: world.nowMs };
    for (;;) {
      await world.sleep(world.chance.between(2, isLocal ? 10 : 80));
      if (activity.isOver) return;
      const ready = this.workers.filter(({ isReady }) => isReady);
      const outcome = ready.length > 0 ? await this.#attempt(activity, world.chance.pick(ready), { ...info }) : 'lost';
      if (activity.isOver) return;
      if (outcome === 'lost') {
        await world.sleep(1_000);
        continue;
      }
      const { error } = outcome;
      const asked = error instanceof ApplicationFailure ? error.nextRetryDelay : undefined;
      const waitMs = asked ? msToNumber(asked) : Math.min(retryMs[1], retryMs[0] * 2 ** (info.attempt - 1));
      const isLast = info.attempt >= attempts || world.nowMs + waitMs > info.scheduledTimestampMs + wholeMs;
      if (!error || (isLast && !activity.wasReset)) return activity.end(outcome);
      info.attempt = activity.wasReset ? 1 : info.attempt + 1;
      activity.wasReset = false;
      info.currentAttemptScheduledTimestampMs = world.nowMs + waitMs;
      await world.sleep(waitMs);
    }
  }

  /** `lost`: the workflow task of a local activity is lost with its worker. */
  #attempt(activity: Activity, worker: WorkerProcess, info: object): Promise<Outcome | 'lost'> {
    return new Promise((resolve) => {
      const { isLocal, startToCloseMs, heartbeatMs } = activity.options;
      let isOver = false;
      const end = (outcome: Outcome | 'lost') => {
        isOver = true;
        for (const stop of [stopAttempt, stopBeat]) stop();
        resolve(outcome);
      };
      const expire = (type: 'START_TO_CLOSE' | 'HEARTBEAT', ms = Infinity) => {
        const failed = () => ({ error: new TimeoutFailure(type, activity.details, type) });
        return this.world.after(ms, () => end(isLocal && isLost() ? 'lost' : failed()));
      };
      const beat = (details: unknown) => {
        if (isOver) return;
        activity.details = details;
        stopBeat();
        stopBeat = expire('HEARTBEAT', heartbeatMs);
      };
      const isLost = worker.execute(activity, info, beat, end);
      const stopAttempt = expire('START_TO_CLOSE', startToCloseMs);
      let stopBeat = expire('HEARTBEAT', heartbeatMs);
    });
  }
}
