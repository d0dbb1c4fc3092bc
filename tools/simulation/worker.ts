import { asyncLocalStorage, CancelledFailure, Context } from '@temporalio/activity';
import { type Budgets, BudgetStoppedError, startsBudget } from '../../src/activities/budgets.js';
import { createItemFinder } from '../../src/activities/find-items.js';
import { createActivities } from '../../src/activities/index.js';
import type { AgentJobsClient, GetJobOutcome, SendMessageOutcome } from '../../src/agent-jobs/index.js';
import { wasDelivered } from '../../src/budget/sends.js';
import { ServerClock } from '../../src/temporal/server-clock.js';
import { clientOf } from './client.js';
import type { Activity, Code, Outcome } from './runs.js';
import type { WorkerProcess } from './server.js';
import type { Stage } from './stage.js';
import { BUDGET_ID } from './world.js';

/** The SDK sends the first heartbeat at once, and the next ones at 0.8 of their timeout. */
const BEAT_EVERY_MS = 48_000;

/** A worker process: it runs the shipped activities over a network, dies, freezes and comes back. */
export class Worker implements WorkerProcess {
  readonly settings;
  #isAlive = true;
  #incarnation = 0;
  #frozenUntilMs = 0;
  #stoodStillMs = 0;
  #ending = new AbortController();
  #activities: Record<string, (input: never) => Promise<unknown>>;

  /** @param faults chances of the network's faults */
  constructor(
    private readonly stage: Stage,
    private readonly budgetCode: Code,
    private readonly faults: () => { lost: number; late: number; doubled: number; refused: number },
  ) {
    const { chance } = stage.world;
    const own = stage.has.has('clocks');
    const drainMs = own ? chance.whole(1_000, 5_000) : stage.has.has('revived') ? 60_000 : 2_000;
    const startWithinMs = own ? chance.whole(5_000, 60_000) : 20_000;
    const sendTimeoutMs = own ? chance.whole(2_000, 10_000) : 3_000;
    const leaseMs = startWithinMs * 2 + sendTimeoutMs;
    const maxWatches = chance.happens(0.2) ? chance.whole(0, 2) : 2_000;
    /** `offsetMs`: how far its wall clock is off. */
    const offsetMs = own ? chance.between(-drainMs, drainMs) / 2 : 0;
    this.settings = { sendTimeoutMs, drainMs, leaseMs, offsetMs, maxLimit: 100, maxWatches };
    this.#activities = this.#create();
  }

  /** Whether it takes activities. */
  get isReady(): boolean {
    return this.#isAlive && !this.#ending.signal.aborted && this.#frozenUntilMs <= this.stage.world.nowMs;
  }

  /** @param drainMs for how long it hands its watches back before */
  async die(drainMs: number, backAfterMs: number): Promise<void> {
    const { world } = this.stage;
    if (!this.isReady) return;
    world.note('a worker dies', drainMs);
    if (drainMs > 0) this.#ending.abort();
    await world.sleep(drainMs);
    this.#isAlive = false;
    this.#incarnation += 1;
    await world.sleep(backAfterMs);
    this.#isAlive = true;
    this.#ending = new AbortController();
    this.#activities = this.#create();
  }

  /** @param isMachine its stopwatch stands still, too */
  freeze(ms: number, isMachine: boolean): void {
    if (!this.isReady) return;
    this.stage.world.note('a worker freezes', ms, isMachine);
    this.#frozenUntilMs = this.stage.world.nowMs + ms;
    if (isMachine) this.#stoodStillMs += ms;
  }

  /** Returns whether the process that runs it has ended, or is frozen. */
  execute(activity: Activity, info: object, beat: (details: unknown) => void, end: (end: Outcome) => void) {
    const { run, name, input, details } = activity;
    const { world } = this.stage;
    const { chance } = world;
    const incarnation = this.#incarnation;
    const workflowExecution = { workflowId: run.workflowId, runId: run.runId };
    let beatAtMs = -Infinity;
    let latest: unknown;
    const flush = () => {
      if (latest !== undefined) beat(latest);
      latest = undefined;
      beatAtMs = world.nowMs;
    };
    const context = {
      info: { ...info, workflowExecution, heartbeatDetails: structuredClone(details) },
      log: { info: () => undefined, warn: () => undefined },
      heartbeat: (observation: unknown) => {
        if (latest === undefined) this.#resume(Math.max(1, beatAtMs + BEAT_EVERY_MS - world.nowMs), flush);
        latest = structuredClone(observation);
      },
      sleep: async (ms: number) => {
        await this.#sleep(ms);
        // An activity that nobody waits for learns it in its next heartbeat.
        if (activity.isOver) throw new CancelledFailure('cancelled');
      },
    };
    const perform = async () => {
      await this.#sleep(chance.between(1, 20));
      const code = () => this.#activities[name]!(structuredClone(input) as never);
      const running = asyncLocalStorage.run(context as never, code);
      const outcome = await running.then(
        (value) => ({ value }),
        (error: unknown) => ({ error: error as Error }),
      );
      await this.#sleep(chance.between(1, 15));
      flush();
      end(outcome);
    };
    void perform();
    return () => this.#incarnation !== incarnation || this.#frozenUntilMs > world.nowMs;
  }

  /** Goes on later in this process: never after its death, and not while it is frozen. */
  #resume = (ms: number, what: () => void, incarnation = this.#incarnation): (() => void) =>
    this.stage.world.after(ms, () => {
      if (this.#incarnation !== incarnation) return;
      const frozenMs = this.#frozenUntilMs - this.stage.world.nowMs;
      if (frozenMs > 0) this.#resume(frozenMs + 1, what, incarnation);
      else what();
    });

  #sleep = (ms: number): Promise<void> => new Promise((resolve) => this.#resume(ms, resolve));
  #isLost = (): boolean => this.stage.world.chance.happens(this.faults().lost);

  #travelMs(): number {
    const { chance } = this.stage.world;
    return chance.happens(this.faults().late) ? chance.between(100, 20_000) : chance.between(2, 150);
  }

  /** Something goes over the network and comes back, each way perhaps never. Otherwise `silent` is the answer. */
  #call = <T>(timeoutMs: number, silent: T, there: (reply: (value: T) => void) => void): Promise<T> =>
    new Promise((resolve) => {
      const { world } = this.stage;
      const stop = this.#resume(timeoutMs, () => resolve(silent));
      if (this.#isLost()) return;
      const end = (value: T) => (stop(), resolve(value));
      const arrive = () => there((value) => this.#isLost() || this.#resume(this.#travelMs(), () => end(value)));
      world.after(this.#travelMs(), arrive);
      if (world.chance.happens(this.faults().doubled)) world.after(this.#travelMs(), arrive);
    });

  /** A call of Temporal, which fails if `there` answers with an error. */
  async #ask<T>(there: (reply: (value: T | Error) => void) => void): Promise<T> {
    const value = await this.#call<T | Error>(5_000, new Error('DEADLINE_EXCEEDED'), there);
    if (value instanceof Error) throw value;
    return value;
  }

  /** Starts a budget if there is none. One that was stopped starts by hand. */
  #startBudget(): void {
    const { server } = this.stage;
    if (!server.latest(BUDGET_ID)) server.start(BUDGET_ID, this.budgetCode);
  }

  #create() {
    const { world, server, service, log } = this.stage;
    const { settings } = this;
    const budgets: Budgets = {
      ask: (projectId, ask) =>
        this.#ask((reply) => {
          log.count('asks', ask.workflowId);
          if (ask.refusal) log.count('refusals', ask.workflowId);
          world.note('ask', ask.workflowId, ask.runId, ask.sendNumber);
          this.#startBudget();
          const isTaken = server.deliverByName(BUDGET_ID, 'ask', ask, (said) => reply(said as Error));
          if (!isTaken) reply(new BudgetStoppedError(projectId));
        }),
      report: async (_, report) => {
        // So long that the workflow task of a follow-up ends before: a reset can go back to between send and word.
        if (this.stage.has.has('retold')) await this.#sleep(world.chance.between(0, 9_500));
        await this.#ask((reply) => {
          if (startsBudget(report)) this.#startBudget();
          const isFound = server.deliverByName(BUDGET_ID, 'report', report);
          world.note('report', JSON.stringify(report), isFound ? '' : 'not found');
          reply(undefined);
        });
      },
      wasDelivered: (_, send) =>
        this.#ask((reply) => {
          const { state } = server.latest(BUDGET_ID)?.budget ?? {};
          reply(state ? wasDelivered(state, send) : 'no');
        }),
      listSends: (query) => this.#ask((reply) => reply({ sends: server.list(query), others: 0 })),
    };
    const late: GetJobOutcome = { kind: 'failed', reason: 'timeout', message: 'timeout' };
    const getJob: AgentJobsClient['getJob'] = ({ jobId }) =>
      this.#call<GetJobOutcome>(7_000, late, (reply) => reply(service.read(jobId)));
    const stopwatchMs = () => world.nowMs - this.#stoodStillMs;
    const clocks = { wallMs: () => world.nowMs + settings.offsetMs, stopwatchMs };
    const agentJobs = { getJob, sendMessage: this.#sendMessage };
    const ending = this.#ending.signal;
    const { findItems, findPart } = createItemFinder(clientOf(server.latest));
    const find =
      <Input, Found>(what: (input: Input) => Promise<Found>) =>
      (input: Input) =>
        this.#ask<Found>((reply) => void what(input).then(reply, reply));
    const serverClock = new ServerClock();
    const shipped = createActivities({
      agentJobs,
      budgets,
      ...settings,
      ending,
      linksArePrivate: false,
      serverClock,
      clocks,
    });
    return { ...shipped, findItems: find(findItems), findPart: find(findPart) };
  }

  #sendMessage: AgentJobsClient['sendMessage'] = async ({ jobId, prompt, mayStart }) => {
    const { world, service } = this.stage;
    const { chance } = world;
    const { sendTimeoutMs, drainMs, offsetMs } = this.settings;
    const from = Context.current().info.workflowExecution!;
    await this.#sleep(chance.between(1, 30));
    if (!mayStart()) return { outcome: 'notSent', message: 'too late' };
    if (chance.happens(this.faults().refused)) return { outcome: 'notSent', message: 'connection refused' };
    return new Promise<SendMessageOutcome>((resolve) => {
      const give = (ms: number, sent: SendMessageOutcome) => this.#resume(ms, () => resolve(sent));
      give(sendTimeoutMs, { outcome: 'unknown', message: 'timeout' });
      // What was written arrives until the timeout and the drain are over, less what clocks are off.
      const longestMs = sendTimeoutMs + drainMs - Math.max(0, -offsetMs) - 50;
      const thereMs = chance.happens(this.faults().late) ? chance.between(0, longestMs) : chance.between(2, 150);
      const isReset = chance.happens(0.3);
      if (this.#isLost()) {
        if (isReset) give(thereMs, { outcome: 'unknown', message: 'reset' });
        return;
      }
      world.after(thereMs, () => {
        const sent = service.post(jobId, prompt, from);
        if (!this.#isLost()) give(this.#travelMs(), sent);
      });
    });
  };
}
