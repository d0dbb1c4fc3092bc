import { setTimeout as delay } from 'node:timers/promises';
import { type Outcome, play, type Run } from './play.js';
import type { Project } from './project.js';
import { type FaultPlan, SEND_START_TO_CLOSE_MS, steps, type WorkerProcess } from './worker-process.js';

/** More workers that start at once would keep two cores busy with nothing else. */
const PROJECTS = 6;
/** On a very busy machine a worker ends before it reaches its step: the SDK gives up a script after 5 s. */
const TRIES = 3;
/** Long enough for the server to give a send to another worker. */
const FREEZE_MS = SEND_START_TO_CLOSE_MS + 5_000;
/** Time for a frozen process to do what it was about to do. */
const THAW_MS = 4_000;
/** A batch needs as long for each part of it, with the recovery from the kills. */
const KILL_EVERY_MS = 15_000;

type Step = FaultPlan['step'];

/**
 * Kills the worker with SIGKILL at every step of a send and starts another, many times, in several projects at once. The
 * follow-ups of one kill recover while the next ones start, and the next kill strikes either.
 */
export function kill(run: Run): Promise<Outcome> {
  return strikeAt('kill', [...steps, ...steps], run, (project, worker) => project.kill(worker));
}

/**
 * Freezes a worker (SIGSTOP) in the middle of a send for longer than the send's lease and timeout. Another worker takes
 * over. Then the frozen worker goes on (SIGCONT). It must not send what the other has sent or given up.
 */
export function freeze(run: Run): Promise<Outcome> {
  const inSend = steps.slice(steps.indexOf('send-scheduled'), steps.indexOf('outcome-sent'));
  return strikeAt('freeze', inSend, run, async (project, frozen) => {
    const fromMs = Date.now();
    const rescuer = project.startWorker();
    await delay(FREEZE_MS);
    frozen.signal('SIGCONT');
    project.noteFault({ fromMs });
    await delay(THAW_MS);
    await project.kill(frozen);
    await project.kill(rescuer);
  });
}

/** Deals steps out to projects, in a random order. In each, workers strike one after the other, and `act` ends them. */
function strikeAt(
  name: 'kill' | 'freeze',
  round: readonly Step[],
  run: Run,
  act: (project: Project, worker: WorkerProcess) => Promise<void>,
): Promise<Outcome> {
  const signal = name === 'kill' ? 'SIGKILL' : 'SIGSTOP';
  return play(name, run, { projects: PROJECTS }, async ({ projects, random, count }) => {
    const rounds = Array.from({ length: run.scale }, () => round).flat();
    const left = rounds.map((step) => ({ step, order: random.next() })).sort((a, b) => a.order - b.order);
    const strike = async (project: Project, step: Step): Promise<boolean> => {
      const hit = name === 'kill' ? project.random.between(1, 3) : 1;
      const worker = project.startWorker({ step, hit, signal });
      await project.start(hit + project.random.between(0, 2));
      const struck = await worker.struck;
      await (struck ? act(project, worker) : project.kill(worker));
      count(struck ? `at ${step}` : 'missed');
      run.say?.(`${project.id}: ${struck ? name : 'missed'} at ${step}, hit ${hit}`);
      return struck;
    };
    const work = async (project: Project): Promise<void> => {
      for (let next = left.pop(); next; next = left.pop()) {
        for (let tries = 1; tries <= TRIES && !(await strike(project, next.step)); tries++);
      }
    };
    await Promise.all(projects.map(work));
  });
}

/**
 * Replaces workers as a rolling deployment does, with many follow-ups under way: when the next worker is ready, the
 * previous one gets SIGTERM. Nothing here excuses a delivery that remains unknown.
 */
export function restart(run: Run): Promise<Outcome> {
  return play('restart', run, {}, async ({ projects: [project], random, count }) => {
    const leaving: Promise<void>[] = [];
    let current = project.startWorker();
    await current.ready;
    await project.start(40);
    for (let number = 1; number <= 3 * run.scale; number++) {
      const next = project.startWorker();
      await next.ready;
      await project.start(20);
      await delay(random.between(500, 3_000));
      leaving.push(current.leave());
      count('restarts');
      run.say?.(`${project.id}: restart ${number}`);
      current = next;
    }
    await Promise.all(leaving);
  });
}

/** Runs one batch over several projects, while its two workers are killed (SIGKILL) in turn. */
export function batch(run: Run): Promise<Outcome> {
  return play('batch', run, {}, async ({ projects: [project], count }) => {
    const workers = [project.startWorker(), project.startWorker()];
    const projectIds = ['a', 'b', 'c', 'd'].map((name) => `${project.id}~${name}`);
    await project.startBatch(200 * run.scale, 200, projectIds);
    for (let kills = 0; kills < 4 * run.scale; kills++) {
      await delay(KILL_EVERY_MS);
      await project.kill(workers.shift());
      count('kills');
      workers.push(project.startWorker());
    }
  });
}
