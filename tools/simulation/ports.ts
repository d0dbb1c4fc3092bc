import { TimeoutFailure } from '@temporalio/common';
import type { z } from 'zod';
import { Budget } from '../../src/budget/budget.js';
import { BudgetLoop, type RecentSends } from '../../src/budget/loop.js';
import { type BudgetState, newState } from '../../src/budget/state.js';
import { trim } from '../../src/budget/trim.js';
import type { Delivered, DeliveryDecision, FollowUpSettings as Settings } from '../../src/contract/index.js';
import { FollowUp } from '../../src/follow-up/flow.js';
import { readWatchResult } from '../../src/follow-up/judge.js';
import { type FollowUpPort, type JobRead, readSendResult, readSlotAnswer } from '../../src/follow-up/port.js';
import { answerSchema, askSchema, budgetEventSchema, type BudgetSettings } from '../../src/protocol/index.js';
import type { Log, Order } from './log.js';
import { type Code, ContinueAsNew, type Run } from './runs.js';
import { Chance } from './world.js';

const ASK_ONCE = { isLocal: true, startToCloseMs: 15_000, attempts: 1 } as const;
const ASK_AGAIN = { startToCloseMs: 20_000, retryMs: [2_000, 300_000] } as const;
/** The activity repeats its question by itself. */
const ASK_BRIEFLY = { isLocal: true, startToCloseMs: 5_000, wholeMs: 6_000, retryMs: [500, 2_000] } as const;
const TELL = { isLocal: true, startToCloseMs: 10_000, retryMs: [1_000, 60_000] } as const;
const LIST = { isLocal: true, startToCloseMs: 20_000, retryMs: [5_000, 300_000] } as const;

/** Passes a signal on if it is valid, as the workflows do. */
export function receive<T>(schema: z.ZodType<T>, input: unknown, what: (event: T) => void): void {
  const { success, data } = schema.safeParse(input);
  if (success) what(data);
}

/** The shipped flow of a follow-up, over a port that does what that of its workflow does. */
export function followUp(settings: Settings): Code {
  const begin = (run: Run) => {
    const { workflowId, runId, startedAtMs, originalRunId, nowMs, condition } = run;
    const chance = new Chance(Number(/\d+$/.exec(workflowId)?.[0]));
    const flow = new FollowUp(settings, {
      ...{ runId, startedAtMs, mayHaveSent: runId !== originalRunId, nowMs, condition },
      random: () => chance.next(),
      nextTask: () => condition(() => false, 1).then(() => undefined),
      show: ({ state }, sentAtMs) => run.show(state, sentAtMs),
      // A local activity first, which is never cancelled. If it fails, the server repeats a normal one.
      askForSlot(order, untilMs, onTrouble) {
        let isStopped = false;
        let again: ReturnType<Run['activity']> | undefined;
        const ask = async () => {
          const { value, error } = (await run.activity('askForSlot', order, ASK_ONCE).result) ?? {};
          if (isStopped || !error) return readSlotAnswer(value);
          onTrouble({ reason: (error as { type?: string }).type ?? 'service', message: error.message });
          again = run.activity('askForSlot', order, { ...ASK_AGAIN, wholeMs: Math.max(1, untilMs - nowMs()) });
          return readSlotAnswer((await again.result)?.value);
        };
        return { result: ask(), stop: () => (again ? again.stop() : void (isStopped = true)) };
      },
      wasResetSince: (id) => id !== runId && run.patched(id),
      isHistoryFull: () => false,
      async wasDelivered(messageTag) {
        const said = await run.activity('wasDelivered', { projectId: 'p', messageTag }, ASK_BRIEFLY).result;
        return said?.value as Delivered | undefined;
      },
      async readJob(job) {
        const read = await run.activity('readJob', job, ASK_ONCE).result;
        return (read?.value as JobRead | undefined) ?? { kind: 'failed', message: 'not in time' };
      },
      async sendMessage(order) {
        const once = { startToCloseMs: Math.max(order.grant.leaseMs, 10_000), attempts: 1 };
        const { value, error } = (await run.activity('sendMessage', order, once).result) ?? {};
        const details: unknown = error instanceof TimeoutFailure ? error.lastHeartbeatDetails : undefined;
        return { ...readSendResult(value, order), ...(details as object) };
      },
      async tellBudget(event) {
        const input = { projectId: 'p', event: { runId, ...event, workflowId } };
        await run.activity('tellBudget', input, TELL).result;
      },
      watchJob(order) {
        const wholeMs = Math.max(1, order.deadlineMs - nowMs()) + 120_000;
        const retryMs = [Math.min(30_000, settings.poll.initialIntervalMs), 30_000] as const;
        const { result, stop } = run.activity('watchJob', order, { heartbeatMs: 60_000, wholeMs, retryMs });
        return { result: result.then((end) => readWatchResult(end?.value)), stop };
      },
    } satisfies FollowUpPort);
    const handlers = {
      answer: (input: unknown) => receive(answerSchema, input, (answer) => flow.receive(answer)),
      wake: () => flow.wake(),
      cancel: () => flow.cancel(),
      pollNow: () => flow.pollNow(),
      resolveDelivery: (word: unknown) =>
        flow.refusalOfDecision(word) ?? flow.resolveDelivery(word as DeliveryDecision),
    };
    return { main: () => flow.run(), handlers };
  };
  return { begin, prompt: settings.prompt };
}

/** `mostEvents`: after how many events it continues as new. */
export interface BudgetOptions {
  settings: BudgetSettings;
  places: { most: number; mostForJob: number };
  mostEvents: number;
  assumeFull?: boolean;
}

/** The shipped budget and its loop, over a port that does what that of its workflow does. */
export function projectBudget({ settings, places, mostEvents, assumeFull = false }: BudgetOptions, log: Log): Code {
  const begin = (run: Run) => {
    const { server, originalRunId, nowMs, condition } = run;
    const before = run.before as BudgetState | undefined;
    const liveLog = () => (run.isReplaying ? undefined : log);
    const budget = new Budget(structuredClone(before) ?? newState(settings, run.startedAtMs), places);
    const loop = new BudgetLoop(budget, {
      ...{ originalRunId, nowMs, condition, allAnswered: () => Promise.resolve(), show: () => undefined },
      async send(message) {
        liveLog()?.answered(message.workflowId, message.answer);
        return (await run.call((id) => server.signalFromBudget(run, id, message)).result)?.value !== false;
      },
      async listRecentSends(query) {
        const listed = await run.activity('listRecentSends', { projectId: 'p', ...query }, LIST).result;
        return listed?.value as RecentSends;
      },
      wasResetSince: (runId) => runId !== run.runId && run.patched(runId),
      isContinued: before !== undefined,
      isLong: () => run.isLong(mostEvents),
      isTooLong: () => run.isLong(4 * mostEvents),
    });
    run.budget = budget;
    const main = async () => {
      await loop.run(assumeFull && !before);
      trim(budget.state);
      return new ContinueAsNew(JSON.parse(JSON.stringify(budget.state)) as BudgetState);
    };
    const handlers = {
      ask(input: unknown) {
        const ask = askSchema.parse(input);
        const answer = loop.ask(ask);
        liveLog()?.answered(ask.workflowId, answer);
        return answer;
      },
      tell: (input: unknown) =>
        receive(budgetEventSchema, input, (event) => {
          liveLog()?.heard(nowMs(), event);
          loop.receive(event);
        }),
      order: (input: unknown) =>
        loop.change((nowMs) => {
          const { pause, resume, limit } = input as Order;
          liveLog()?.ordered(nowMs, input as Order);
          if (pause) budget.pause(nowMs, pause);
          if (resume) budget.resume(nowMs);
          if (limit !== undefined) budget.setLimit(nowMs, { limit });
        }),
    };
    return { main, handlers };
  };
  return { begin };
}
