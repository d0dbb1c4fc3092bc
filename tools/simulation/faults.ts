import type { Batches } from './batch.js';
import type { Command } from './log.js';
import { followUp, projectBudget } from './ports.js';
import { type Fault, isBudgetLost, isOnly } from './profiles.js';
import type { Happened, Run } from './runs.js';
import type { Stage } from './stage.js';
import { BUDGET_ID, START_MS } from './world.js';

/** Decides what strikes when. All faults end when the log says so. */
export function planFaults({ world, has, server, service, callers, log, budget }: Stage, batches?: Batches): void {
  const { chance } = world;
  const { healedAtMs } = log;
  /** What strikes at the next send. */
  const armed: ((run: Run) => unknown)[] = [];
  server.onActivity = ({ name, run }) => {
    const next = name === 'sendMessage' && world.nowMs < healedAtMs - 10_000 ? armed.shift() : undefined;
    if (next) world.after(chance.between(0, chance.pick([300, 5_000])), () => next(run));
  };
  const untilMs = (longestMs: number) => Math.min(healedAtMs, world.nowMs + chance.between(500, longestMs));
  /** Strikes some times. `what` receives who sends if it strikes at a send. */
  const strike = (fault: Fault, most: number, what: (sender?: Run) => unknown) => {
    for (let n = has.has(fault) ? chance.whole(1, most) : 0; n > 0; n--) {
      const now = chance.happens(0.4) ? () => void armed.push(what) : () => what();
      // A budget that is lost before Temporal's list shows anything knows of nothing.
      world.at(START_MS + chance.between(10_000, (healedAtMs - START_MS) * chance.pick([0.05, 0.3, 1])), now);
    }
  };
  const anyRunning = (sender?: Run): Run | undefined =>
    sender?.status === 'running'
      ? sender
      : chance.pick(callers.flatMap(({ workflowId }) => server.running(workflowId) ?? []));
  const command = (input: Command) => server.deliverByName(BUDGET_ID, 'command', input);
  const worker = () => chance.pick(server.workers);

  strike('workers', 6, () => void worker().die(chance.pick([0, 0, 2_000]), untilMs(60_000) - world.nowMs));
  strike('freezes', 5, () => worker().freeze(untilMs(240_000) - world.nowMs, chance.happens(0.5)));
  strike('clocks', 3, () => {
    const { settings } = worker();
    const stepMs = chance.between(0, chance.pick([5_000, 7_200_000]));
    settings.offsetMs += stepMs;
    world.at(untilMs(300_000), () => (settings.offsetMs -= stepMs));
  });
  strike('service', 4, () => (service.until.failing = untilMs(180_000)));
  strike('service', 3, () => service.hide(untilMs(60_000)));
  strike('service', 1, () => service.archive(chance.pick([...service.jobs.keys()])));
  strike('refusals', 3, () => (service.until[429] = untilMs(120_000)));
  strike('refusals', 2, () => (service.until[chance.pick([401, 402] as const)] = untilMs(300_000)));
  strike('firewall', isOnly(has, 'firewall') ? 20 : 4, () =>
    service.blocked.set(chance.pick([...service.jobs.keys()]), {
      ...{ untilMs: untilMs(1_800_000), statusCode: chance.pick([200, 402, 403, 403, 429]) },
    }),
  );
  strike('outages', 2, () => (service.until.silent = untilMs(600_000)));
  if (isOnly(has, 'outages')) service.until.silent = START_MS + chance.between(0, 600_000);
  strike('takeovers', 6, () => (server.stalledUntilMs[chance.pick(['budget', 'others'] as const)] = untilMs(60_000)));
  strike('takeovers', 6, () => chance.pick([server.running(BUDGET_ID), anyRunning()])?.replay());
  strike('budget-resets', 3, () => {
    const runs = server.runs.get(BUDGET_ID)?.filter(({ tasks }) => tasks.length > 1) ?? [];
    const run = server.running(BUDGET_ID) && chance.pick(runs.slice(-2));
    const first = chance.happens(0.3) ? 0 : 0.5;
    return run && server.reset(run, Math.floor(chance.between(first, 1) * run.tasks.length));
  });
  const stopBudget = () => {
    server.close(server.running(BUDGET_ID), 'terminated');
    const again = projectBudget({ ...budget, assumeFull: chance.happens(0.2) }, log);
    const restore = () => server.latest(BUDGET_ID) && !server.running(BUDGET_ID) && server.start(BUDGET_ID, again);
    world.at(untilMs(600_000), restore);
  };
  strike('budget-stops', 2, stopBudget);
  strike('budget-deletions', 2, () => server.delete(BUDGET_ID));
  strike('resets', 5, (sender) => {
    const run = sender ?? chance.pick(callers.flatMap(({ workflowId }) => server.runs.get(workflowId) ?? []));
    if (!run || run.tasks.length < 2 || !server.latest(run.workflowId)) return undefined;
    return server.reset(run, chance.happens(0.5) ? 0 : chance.whole(0, run.tasks.length - 1));
  });
  strike('stops', 5, (sender) => {
    const run = anyRunning(sender);
    if (!run) return;
    world.note('operator', run.workflowId);
    // A follow-up that was deleted is in no list: a budget that starts afresh cannot know of it.
    const how = chance.pick(['cancel', 'cancel', 'terminate', 'terminate', isBudgetLost(has) ? 'terminate' : 'delete']);
    if (how === 'cancel') server.deliverByName(run.workflowId, 'cancel');
    else if (how === 'terminate') server.close(run, 'terminated');
    else server.delete(run.workflowId);
  });
  strike('by-hand', 4, (sender) => server.deliverByName(anyRunning(sender)?.workflowId ?? '', 'pollNow'));
  strike('by-hand', 4, () =>
    server.deliverByName(anyRunning()?.workflowId ?? '', 'reply', chance.pick([null, {}, 'no', 7])),
  );
  strike('by-hand', 4, () => server.deliverByName(BUDGET_ID, 'report', chance.pick([null, {}, { kind: 'end' }])));
  strike('by-hand', 6, (sender) => {
    const { workflowId = '' } = anyRunning(sender) ?? {};
    const word = chance.pick(['sent', 'notSent', 'perhaps']);
    const caller = callers.find((each) => each.workflowId === workflowId);
    if (caller && word === 'notSent') caller.isResendAllowed = true;
    server.deliverByName(workflowId, 'resolveDelivery', word);
  });
  strike('activities', 12, (sender) => {
    const open = [...(anyRunning(sender)?.activities ?? [])].filter(({ options }) => !options.isLocal);
    const activity = chance.pick(open);
    if (!activity) return;
    world.note('by hand', activity.run.workflowId, activity.name);
    const how = chance.pick(['reset', 'fail', 'complete', 'complete']);
    if (how === 'reset') activity.wasReset = true;
    else if (how === 'fail') activity.end({ error: new Error('failed by hand') });
    else activity.end({ value: chance.pick([{}, null, { kind: 'asked' }, { outcome: 'notSent' }]) });
  });
  strike('commands', 3, () => {
    const endsMs = Math.floor(untilMs(600_000));
    command({ pause: chance.happens(0.5) ? {} : { untilMs: endsMs } });
    world.at(endsMs, () => command({ resume: true }));
  });
  strike('commands', 2, () => command({ limit: chance.whole(1, budget.settings.limit) }));
  strike('reuse', 6, () => {
    const caller = chance.pick(callers);
    const { workflowId, settings } = caller;
    if (!server.latest(workflowId) || server.running(workflowId)) return;
    const prompt = chance.happens(0.6) ? settings.prompt : `${workflowId}#b`;
    // What an id did before is known for as long as its budget lasts.
    if (isBudgetLost(has)) caller.isResendAllowed = true;
    world.note('used again', workflowId, prompt);
    server.start(workflowId, followUp({ ...settings, prompt }));
  });
  // A run that is reset to the end of a refused send reports it again, also after its next send.
  strike('retold', 4, () => (service.until[429] = untilMs(20_000)));
  strike('retold', 1, stopBudget);
  strike('retold', 12, () => {
    const runs = callers.flatMap(({ workflowId }) => server.runs.get(workflowId) ?? []);
    const ends = runs.map((run) => [run, run.tasks.findIndex(({ events }) => events.some(isRefusedSend)) + 1] as const);
    const [run, kept] = chance.pick(ends.filter(([, task]) => task > 0)) ?? [];
    return run && server.reset(run, kept);
  });
  // A budget that was terminated by mistake is reset to where it was: what it received meanwhile is lost.
  strike('revived', 3, () => {
    const run = server.running(BUDGET_ID);
    server.close(run, 'terminated');
    const revive = () => run && !server.running(BUDGET_ID) && server.reset(run, run.tasks.length);
    world.at(untilMs(30_000), revive);
    // Those who sent right before are reset when they have ended.
    const senders = server.runs.get(BUDGET_ID) && run?.budget?.state.grants.map(({ workflowId }) => workflowId);
    for (const workflowId of senders ?? []) {
      world.after(chance.between(60_000, 180_000), () => {
        const latest = server.latest(workflowId);
        return latest && latest.status !== 'running' && server.reset(latest, 0);
      });
    }
  });
  // The latest run of a batch, a part or a follow-up of a batch, if there is any.
  const of = (id: RegExp): Run | undefined => {
    const runs = [...server.runs].flatMap(([workflowId, all]) => (id.test(workflowId) ? all.slice(-1) : []));
    return runs.length > 0 ? chance.pick(runs) : undefined;
  };
  const [BATCH, PART, ITEM] = [/^follow-up-batch\/[^/]+$/, /^follow-up-batch\/.*\//, /^follow-up\/.*:/];
  const resetAny = (run: Run | undefined) => run && server.reset(run, chance.whole(0, run.tasks.length));
  strike('batch', 10, () => resetAny(of(PART)));
  strike('batch', 6, () => resetAny(of(BATCH)));
  strike('batch', 3, () => server.close(of(PART), 'terminated'));
  strike('batch', 6, () => resetAny(of(ITEM)));
  strike('batch', 6, () => server.close(of(ITEM), 'terminated'));
  strike('batch', 3, () => chance.happens(0.5) && batches?.cancel(chance.pick([...batches.started.keys()])));
  strike('batch', 6, () => {
    const run = of(BATCH);
    server.close(run, 'terminated');
    // Unless it was deleted meanwhile.
    const isKept = () => run && server.runs.get(run.workflowId)?.includes(run) && !server.running(run.workflowId);
    const revive = () => run && isKept() && server.reset(run, run.tasks.length);
    world.after(chance.between(0, 30_000), revive);
  });
  // Its parts go on, and another list gets the same id.
  strike('batch', 1, () => {
    const { items = [] } = batches?.started.get('b') ?? {};
    if (!batches || !chance.happens(0.5)) return;
    world.note('the id of the batch is used again');
    server.delete('follow-up-batch/b');
    const next = chance.happens(0.3) ? items : batches.newItems('c');
    world.after(chance.between(0, 5_000), () => server.latest('follow-up-batch/b') ?? batches.start('b', next, {}));
  });
  // What a reset of the budget brings back does not last.
  if (has.has('commands')) world.at(healedAtMs, () => command({ resume: true, limit: budget.settings.limit }));
}

const isRefusedSend = (event: Happened): boolean =>
  'id' in event && (event.value as { outcome?: string } | undefined)?.outcome === 'limited';
