import { limitOf } from '../../src/budget/slots.js';
import type { FollowUpSettings as Settings } from '../../src/contract/index.js';
import { Batches } from './batch.js';
import { planFaults } from './faults.js';
import { Log } from './log.js';
import { followUp, projectBudget } from './ports.js';
import { type Fault, faultsOf, isOnly } from './profiles.js';
import { Server } from './server.js';
import { Service } from './service.js';
import type { Caller, Stage } from './stage.js';
import { judgeSeed } from './verdicts.js';
import { Worker } from './worker.js';
import { BUDGET_ID, START_MS, World } from './world.js';

const FAULTS_MS = 1_800_000;
const END_MS = 16 * 3_600_000;
const LOOK_EVERY_MS = 60_000;
/** A budget checks the owners of turns every ten minutes, and who found no place asks again after half an hour. */
const MAX_LOOKS = 65;
/** A follow-up asks again after six hours, because its grant may be lost. */
const MAX_LOOKS_UNHEARD = 370;
/** A message that was refused waits up to an hour more. */
const MAX_LOOKS_DELAYED = 2 * MAX_LOOKS;
/** Several jobs that answer 429 may each pause the project twice, for two minutes. */
const MAX_LOOKS_BLOCKED = 25;

/** Runs the world of one seed until all is over. */
export async function runSeed(profile: string, seed: number, print?: (line: string) => void) {
  const world = new World(seed, print);
  const { random } = Math;
  // The activities vary their waits by chance.
  Math.random = () => world.chance.next();
  try {
    const { found } = await runWorld(world, profile);
    return { found, trace: world.trace >>> 0 };
  } finally {
    Math.random = random;
  }
}

async function runWorld(world: World, profile: string): Promise<Log> {
  const has: ReadonlySet<Fault> = new Set(faultsOf(profile));
  const isBacklog = profile === 'backlog';
  const hasBatch = /batch/.test(profile);
  const { chance } = world;
  // Many messages, of which some are refused, or all get no clear answer.
  const isWide = isOnly(has, 'firewall') || isOnly(has, 'outages');
  const limit = isBacklog ? 100 : isWide ? 60 : chance.pick([2, 3, 5, 8]);
  const windowMs = isBacklog ? 3_600_000 : chance.pick([120_000, 300_000, 600_000]);
  const marginMs = isBacklog ? 20 : 1_000;
  const reserve = !isBacklog && chance.happens(0.3) ? chance.whole(0, limit / 2) : 0;
  const lowerLimit = has.has('refusals') && chance.happens(0.5) ? Math.max(1, limit - 2) : Infinity;
  const lag = has.has('stale') ? { showMs: 11_000, lagMs: 3_500 } : { showMs: 500, lagMs: 0 };
  const service = new Service(world, { ...lag, limit: lowerLimit, windowMs });
  const log = new Log(world, has.size > 0 ? START_MS + FAULTS_MS : START_MS, service.arrivals);
  const often = { lost: chance.pick([0.02, 0.1, 0.3]), late: 0.1, doubled: 0.1, refused: chance.pick([0, 0.1]) };
  const offsetMs = has.has('clocks') ? chance.between(-marginMs, marginMs) : 0;
  const undoneOften = chance.pick([0.02, 0.2]);
  const isStruck = (fault: Fault) => has.has(fault) && world.nowMs < log.healedAtMs;
  const chancesOf = (fault: Fault) => (isStruck(fault) ? often : { lost: 0, late: 0, doubled: 0, refused: 0 });
  const undone = () => (isStruck('takeovers') ? undoneOften : 0);
  const server = new Server(world, log, offsetMs, () => ({ ...chancesOf('signals'), undone: undone() }));
  const budget = {
    settings: { limit, windowMs, marginMs, reserve },
    capacity: has.has('crowds')
      ? { total: chance.pick([2, 3, 4, 5, 6, 1_000, 1_000]), forJob: 2 }
      : { total: 1_000, forJob: 10 },
    mostEvents: chance.pick([50, 330, 1_000]),
  };
  const stage: Stage = { world, has, server, service, log, callers: [], budget };
  const budgetCode = projectBudget(budget, log);
  const workers = chance.whole(1, 3);
  while (server.workers.length < workers)
    server.workers.push(new Worker(stage, budgetCode, () => chancesOf('network')));
  addCallers(
    stage,
    isBacklog ? [320, 320] : isWide ? [40, 40] : hasBatch ? [12, chance.whole(0, 4)] : [chance.whole(2, 8)],
  );
  const batches = hasBatch ? new Batches(stage) : undefined;
  planFaults(stage, batches);
  watchForStuck(stage);
  const mustRunUntilMs = isBacklog ? START_MS + 3 * windowMs : log.healedAtMs;
  const isOver = ({ workflowId, startsAtMs }: Caller) => startsAtMs < world.nowMs && !server.running(workflowId);
  try {
    await world.run(
      START_MS + (hasBatch ? 3 : 1) * END_MS,
      () => world.nowMs > mustRunUntilMs && stage.callers.every(isOver) && batches?.isOver !== false,
    );
  } catch (error) {
    log.find('crash', (error as Error).stack);
  }
  judgeSeed(stage, hasBatch);
  batches?.judge(has.has('batch'));
  // The first message of the fourth window.
  const fourthMs = service.arrivals[3 * limit]?.atMs ?? Infinity;
  if (isBacklog && fourthMs - START_MS > (3 * windowMs) / 0.99) log.find('idle', `${fourthMs - START_MS} ms`);
  return log;
}

function addCallers({ world, has, service, server, callers }: Stage, [jobs, most]: [number, number?]): void {
  const { chance } = world;
  const isBacklog = jobs === 320;
  for (let i = 0; i < jobs; i++) service.addJob(`j${i}`);
  const isImpatient = (probability: number) => has.has('impatient') && chance.happens(probability);
  for (let i = 0, count = most ?? chance.whole(6, 18); i < count; i++) {
    const jobId = `j${jobs >= 40 ? i : chance.whole(0, jobs - 1)}`;
    const workflowId = `follow-up/p/${jobId}/k${i}`;
    const poll = { initialIntervalMs: chance.whole(1_000, 8_000), maxIntervalMs: chance.whole(8_000, 60_000) };
    const settings: Settings = {
      ...{ projectId: 'p', jobId, prompt: `${workflowId}#a` },
      lane: chance.pick(['interactive', 'interactive', 'batch']),
      onUnknownDelivery: chance.pick(['fail', 'fail', 'assumeSent', 'resend']),
      whenActive: chance.pick(['wait', 'wait', 'wait', 'send']),
      poll: { ...poll, backoffCoefficient: chance.pick([1, 1.5, 2]) },
      settleTimeMs: chance.whole(15_000, 120_000),
      prLinkGraceMs: chance.whole(0, 30_000),
      jobTimeoutMs: isImpatient(0.3) ? chance.whole(20_000, 180_000) : 3_600_000,
      budgetWaitTimeoutMs: isImpatient(0.4) ? chance.whole(10_000, 300_000) : 12 * 3_600_000,
    };
    const startsAtMs = START_MS + chance.between(0, isBacklog || chance.happens(0.5) ? 2_000 : 600_000);
    callers.push({ workflowId, startsAtMs, settings, isResendAllowed: false });
    world.at(startsAtMs, () => server.start(workflowId, followUp(settings)));
  }
}

/** After the faults, who could be sent is sent. */
function watchForStuck({ world, has, server, service, callers, log }: Stage): void {
  const isFirewalled = isOnly(has, 'firewall');
  const looks = new Map<string, number>();
  const isIn = (workflowId: string, ...states: string[]) =>
    states.includes(server.running(workflowId)?.states.at(-1)?.state ?? '');
  const look = () => {
    world.after(LOOK_EVERY_MS, look);
    const { state } = server.running(BUDGET_ID)?.budget ?? {};
    if (!state || state.isCounting || state.operatorPause || (state.pace.pause && !isFirewalled)) return;
    const { windowMs, marginMs, reserve } = state.settings;
    const free =
      limitOf(state) - service.arrivals.filter(({ atMs }) => atMs > world.nowMs - windowMs - marginMs).length;
    for (const { workflowId, settings } of callers) {
      const rivals = callers.filter((each) => each.settings.jobId === settings.jobId && each.workflowId !== workflowId);
      const isTaken = rivals.some((each) => isIn(each.workflowId, 'sending', 'reconciling', 'polling'));
      const couldGo =
        isIn(workflowId, 'waiting-for-budget', 'waiting-for-job', 'blocked') &&
        !isTaken &&
        free > (settings.lane === 'batch' ? reserve : 0) &&
        !service.isAtWork(settings.jobId);
      const count = couldGo ? (looks.get(workflowId) ?? 0) + 1 : 0;
      looks.set(workflowId, count);
      const isDelayed = state.waiters.find((waiter) => waiter.workflowId === workflowId)?.refusals !== undefined;
      if (count === (has.has('signals') ? MAX_LOOKS_UNHEARD : isDelayed ? MAX_LOOKS_DELAYED : MAX_LOOKS))
        log.find('stuck', workflowId, `${free} slots are free`);
      const isHealthy = isFirewalled && !service.blocked.has(settings.jobId);
      if (isHealthy && count === MAX_LOOKS_BLOCKED) log.find('blocked', workflowId, `${free} slots are free`);
    }
  };
  world.at(isFirewalled ? START_MS : log.healedAtMs, look);
}
