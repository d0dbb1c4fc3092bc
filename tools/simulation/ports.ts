import { TimeoutFailure } from '@temporalio/common';
import type { z } from 'zod';
import { Budget } from '../../src/budget/budget.js';
import { BudgetLoop, type RecentSends } from '../../src/budget/loop.js';
import { type BudgetState, newState } from '../../src/budget/state.js';
import { trim } from '../../src/budget/trim.js';
import type { Delivered, DeliveryDecision, FollowUpSettings as Settings } from '../../src/contract/index.js';
import { FollowUp } from '../../src/follow-up/flow.js';
import { readWatchResult } from '../../src/follow-up/judge.js';
import { type FollowUpPort, type ReadResult, readSendResult, readSlotResult } from '../../src/follow-up/port.js';
import {
  askSchema,
  type BudgetSettings,
  followUpReportSchema,
  signalledReplySchema,
} from '../../src/protocol/index.js';
import type { Command, Log } from './log.js';
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
      askForSlot(request, untilMs, onTrouble) {
        let isStopped = false;
        let again: ReturnType<Run['activity']> | undefined;
        const ask = async () => {
          const { value, error } = (await run.activity('askForSlot', request, ASK_ONCE).result) ?? {};
          if (isStopped || !error) return readSlotResult(value);
          onTrouble({ reason: (error as { type?: string }).type ?? 'service', message: error.message });
          again = run.activity('askForSlot', request, { ...ASK_AGAIN, wholeMs: Math.max(1, untilMs - nowMs()) });
          return readSlotResult((await again.result)?.value);
        };
        return { result: ask(), stop: () => (again ? again.stop() : void (isStopped = true)) };
      },
      patched: (id) => run.patched(id),
      isHistoryFull: () => false,
      async wasDelivered(messageTag) {
        const said = await run.activity('wasDelivered', { projectId: 'p', messageTag }, ASK_BRIEFLY).result;
        return said?.value as Delivered | undefined;
      },
      async readJob(job) {
        const read = await run.activity('readJob', job, ASK_ONCE).result;
        return (read?.value as ReadResult | undefined) ?? { kind: 'failed', message: 'not in time' };
      },
      async sendMessage(request) {
        const once = { startToCloseMs: Math.max(request.grant.leaseMs, 10_000), attempts: 1 };
        const { value, error } = (await run.activity('sendMessage', request, once).result) ?? {};
        const details: unknown = error instanceof TimeoutFailure ? error.lastHeartbeatDetails : undefined;
        return { ...readSendResult(value, request), ...(details as object) };
      },
      async reportToBudget(report) {
        const input = { projectId: 'p', report: { runId, ...report, workflowId } };
        await run.activity('reportToBudget', input, TELL).result;
      },
      watchJob(request) {
        const wholeMs = Math.max(1, request.deadlineMs - nowMs()) + 120_000;
        const retryMs = [Math.min(30_000, settings.poll.initialIntervalMs), 30_000] as const;
        const { result, stop } = run.activity('watchJob', request, { heartbeatMs: 60_000, wholeMs, retryMs });
        return { result: result.then((end) => readWatchResult(end?.value)), stop };
      },
    } satisfies FollowUpPort);
    const handlers = {
      reply: (input: unknown) => receive(signalledReplySchema, input, (reply) => flow.receive(reply)),
      wake: () => flow.wake(),
      cancel: () => flow.cancel(),
      pollNow: () => flow.pollNow(),
      resolveDelivery: (word: unknown) =>
        flow.issueWithDecision(word) ?? flow.resolveDelivery(word as DeliveryDecision),
    };
    return { main: () => flow.run(), handlers };
  };
  return { begin, prompt: settings.prompt };
}

/** `mostEvents`: after how many events it continues as new. */
export interface BudgetOptions {
  settings: BudgetSettings;
  capacity: { total: number; forJob: number };
  mostEvents: number;
  assumeFull?: boolean;
}

/** The shipped budget and its loop, over a port that does what that of its workflow does. */
export function projectBudget({ settings, capacity, mostEvents, assumeFull = false }: BudgetOptions, log: Log): Code {
  const begin = (run: Run) => {
    const { server, originalRunId, runId, nowMs, condition } = run;
    const before = run.before as BudgetState | undefined;
    const liveLog = () => (run.isReplaying ? undefined : log);
    const budget = new Budget(structuredClone(before) ?? newState(settings, run.startedAtMs), capacity);
    const loop = new BudgetLoop(budget, {
      ...{ originalRunId, runId, nowMs, condition, allAnswered: () => Promise.resolve(), show: () => undefined },
      async signal(message) {
        liveLog()?.noteReply(message.workflowId, message.reply);
        return (await run.call((id) => server.signalFromBudget(run, id, message)).result)?.value !== false;
      },
      async listRecentSends(query) {
        const listed = await run.activity('listRecentSends', { projectId: 'p', ...query }, LIST).result;
        return listed?.value as RecentSends;
      },
      patched: (id) => run.patched(id),
      isContinued: before !== undefined,
      isNextRunDue: () => run.isLong(mostEvents),
      mustNextRunBegin: () => run.isLong(4 * mostEvents),
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
        const reply = loop.ask(ask);
        liveLog()?.noteReply(ask.workflowId, reply);
        return reply;
      },
      report: (input: unknown) =>
        receive(followUpReportSchema, input, (report) => {
          liveLog()?.noteReport(nowMs(), report);
          loop.receive(report);
        }),
      command: (input: unknown) =>
        loop.change((nowMs) => {
          const { pause, resume, limit } = input as Command;
          liveLog()?.noteCommand(nowMs, input as Command);
          if (pause) budget.pause(nowMs, pause);
          if (resume) budget.resume(nowMs);
          if (limit !== undefined) budget.setLimit(nowMs, { limit });
        }),
    };
    return { main, handlers };
  };
  return { begin };
}
