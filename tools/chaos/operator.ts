import { setTimeout as delay } from 'node:timers/promises';
import { projectBudgetWorkflowId } from '../../src/contract/index.js';
import { webhookWorkflowId } from '../../src/protocol/index.js';
import * as temporal from '../../test/support/buttons.js';
import { isPausedInTask } from '../../test/support/contradictions.js';
import { type Outcome, play, type Run, type Stage } from './play.js';
import { insist, itemsOf, type Project, RECEIVER, RECOVERY_MS } from './project.js';
import { steps } from './worker-process.js';

/** How long something stays paused, or a budget stays stopped. */
const HELD_MS = { min: 200, max: 4_000 };
/** How long a worker stands still: far shorter than a send may take, so that it excuses nothing. */
const STOPPED_MS = 1_000;

/** What a button is pressed on, with the signals that it knows. */
const targets = {
  'follow-up': ['wake', 'pollNow', 'budgetReply'],
  budget: ['report'],
  batch: ['partReport'],
  part: ['partOrder', 'followUpEnded'],
  webhook: [],
} as const;
type Target = keyof typeof targets;

type Press = (project: Project, id: string, target: Target) => Promise<unknown>;
const workflow = ({ client }: Project, id: string) => client.workflow.getHandle(id);
const historyOf = async (project: Project, id: string) => (await workflow(project, id).fetchHistory()).events ?? [];
const held = ({ random }: Project) => delay(random.between(HELD_MS.min, HELD_MS.max));
const isOpen = (status: string | undefined) => status === 'RUNNING' || status === 'PAUSED';

/** What an operator does to a workflow. A button returns `false` if there was nothing to press it on. */
const buttons = {
  cancel: (project, id) => workflow(project, id).cancel(),
  async terminate(project, id, target) {
    await workflow(project, id).terminate('chaos');
    if (target !== 'budget') return;
    await held(project);
    await project.followUps.budget(project.id).restore();
  },
  reset: (project, id) =>
    temporal.resetWorkflow(project.client, id, (tasks) => (tasks.length > 0 ? project.pick(tasks) : undefined)),
  async pause(project, id) {
    // A workflow that is paused before its first task can only be terminated.
    const hasBegun = (await historyOf(project, id)).some((event) => event.workflowTaskCompletedEventAttributes);
    if (!hasBegun) return false;
    await temporal.pauseWorkflow(project.client, id);
    await held(project);
    await temporal.unpauseWorkflow(project.client, id);
    // A pause that takes a task from its queue leaves a history that needs a reset.
    const isBroken = (await historyOf(project, id)).some(isPausedInTask);
    return isBroken ? temporal.resetWorkflow(project.client, id, 'last') : undefined;
  },
  nonsense: ({ client }, id, target) => temporal.sendNonsense(client, id, targets[target]),
  async delete(project, id, target) {
    if (target === 'follow-up') {
      // Deleting a running follow-up would terminate it, and its end could not be read.
      if (isOpen((await workflow(project, id).describe()).status.name)) return false;
      await project.takeEnding(project.recordOf(id), Date.now() + RECOVERY_MS);
    }
    return temporal.deleteWorkflow(project.client, id);
  },
  async 'pause activity'(project, id) {
    const paused = await temporal.onActivities(project.client, id, 'pause');
    await held(project);
    await temporal.onActivities(project.client, id, 'unpause');
    return paused > 0;
  },
  'reset activity': async ({ client }, id) => (await temporal.onActivities(client, id, 'reset')) > 0,
  'reset heartbeats': async ({ client }, id) => (await temporal.onActivities(client, id, 'reset-heartbeats')) > 0,
} satisfies Record<string, Press>;
type Button = keyof typeof buttons;

/** A batch that is terminated or deleted has no result to check. */
const pressed: Readonly<Record<Target, readonly Button[]>> = {
  'follow-up': Object.keys(buttons) as Button[],
  budget: ['cancel', 'terminate', 'reset', 'pause', 'nonsense', 'delete'],
  batch: ['reset', 'pause', 'nonsense'],
  part: ['cancel', 'reset', 'pause', 'nonsense'],
  webhook: ['reset', 'pause', 'nonsense', 'pause activity', 'reset activity'],
};

/**
 * An operator presses Temporal's buttons at random on follow-ups, their budget, a batch, its part and webhooks, while
 * messages are sent. At every third press the worker stands still (SIGSTOP) at a step of a send. What was paused is
 * unpaused, and a stopped budget is restored. Nothing else is repaired.
 */
export function operator(run: Run): Promise<Outcome> {
  return play('operator', run, { projects: Math.min(6, 2 * run.scale) }, async (stage) => {
    await Promise.all(stage.projects.map((project, index) => operate(project, run, stage, index)));
  });
}

async function operate(project: Project, { seed, scale, say }: Run, { count, receiver }: Stage, index: number) {
  let worker = project.startWorker();
  const batch = await project.startBatch(12, 6, [project.id]);
  const items = await itemsOf(batch);
  const [part = ''] = await insist(() => batch.parts());
  for (let press = 0; press < 15 * scale; press++) {
    let fresh: string[] = [];
    if (press % 3 === 0) {
      // It ends in order: a kill would excuse a delivery that remains unknown.
      await worker.leave();
      // A prime stride visits all steps.
      const step = steps[(seed + (index + press) * 7) % steps.length]!;
      worker = project.startWorker({ step, hit: 1, signal: 'SIGSTOP' });
      fresh = (await project.start(2)).map(({ workflowId }) => workflowId);
      count((await worker.struck) ? 'stopped' : 'missed');
    }
    const target = project.pick<Target>(
      fresh.length > 0 ? ['follow-up', 'budget'] : (Object.keys(targets) as Target[]),
    );
    const button = project.pick(pressed[target]);
    const followUps = fresh.length > 0 ? fresh : [project.pick([...items, ...project.records]).workflowId];
    const [budget, batchId] = [projectBudgetWorkflowId(project.id), batch.workflowId];
    const mine = receiver.received.filter(({ body }) => JSON.stringify(body).includes(project.id));
    const webhooks = mine.slice(-5).map(({ id }) => webhookWorkflowId({ target: RECEIVER, id }));
    const webhook = webhooks.length > 0 ? [project.pick(webhooks)] : [];
    const ids = { 'follow-up': followUps, budget: [budget], batch: [batchId], part: [part], webhook }[target];
    const pressing = Promise.all(ids.map((id) => pressOn(project, target, id, button)));
    await Promise.race([pressing, delay(STOPPED_MS)]);
    worker.signal('SIGCONT');
    for (const isPressed of await pressing) count(isPressed ? `${button} ${target}` : 'came too late');
    say?.(`${project.id}: ${button} ${ids.join(', ')}`);
    await delay(project.random.between(100, 1_500));
  }
}

/** Presses a button. Returns whether there was something to press it on. */
async function pressOn(project: Project, target: Target, id: string, button: Button): Promise<boolean> {
  const statusNow = async () =>
    (
      await workflow(project, id)
        .describe()
        .catch(() => undefined)
    )?.status.name;
  // It has not started yet, or has been deleted. Asked after a failed press, it may have started by then.
  if ((await statusNow()) === undefined) return false;
  const fromMs = Date.now();
  try {
    if ((await buttons[button](project, id, target)) === false) return false;
  } catch (error) {
    // It has ended, or was deleted, in the meantime.
    if (isOpen(await statusNow())) throw error;
    return false;
  }
  // Nobody may know any more how messages under way ended.
  const isForgotten = target === 'budget' || (target === 'follow-up' && button === 'reset');
  if (isForgotten) project.noteFault({ fromMs, toMs: Date.now() + STOPPED_MS });
  return true;
}
