import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startDevServer } from '../../src/dev-server/index.js';
import { type ProxyMode, startTcpProxy } from '../../test/support/tcp-proxy.js';
import { type Outcome, play, type Run, type Stage } from './play.js';
import { insist } from './project.js';
import { SEND_START_TO_CLOSE_MS } from './worker-process.js';

/** Time for connections to come back after an outage: clients wait up to 5 s between two tries. */
const AFTERMATH_MS = 6_000;
/** After this time the server has given up the send, and its report is lost. */
const REPORT_LOST_MS = SEND_START_TO_CLOSE_MS + 8_000;
/** How long a message may take to arrive when the worker has just lost its connections. */
const MESSAGE_TIMEOUT_MS = 120_000;

/** Options of {@link playOutages}. */
export interface OutageOptions {
  /** Each breaks something and repairs it. They strike in their order, again and again. */
  outages: Readonly<Record<string, (stage: Stage) => Promise<unknown>>>;
  rounds: number;
  /** Where workers find Temporal. @default the address of the run */
  workerAddress?: string;
  /** Whether something may break at any time. @default false */
  alwaysFaulty?: boolean;
}

/** Starts five follow-ups while something breaks and is repaired, again and again. */
export function playOutages(name: string, run: Run, { outages, rounds, ...options }: OutageOptions): Promise<Outcome> {
  const { alwaysFaulty = false, ...where } = options;
  return play(name, run, where, async (stage) => {
    const [project] = stage.projects;
    if (alwaysFaulty) project.noteFault({ toMs: Infinity });
    project.keepWorker();
    for (const [what, strike] of Array.from({ length: rounds }, () => Object.entries(outages)).flat()) {
      const starting = project.start(5);
      await delay(stage.random.between(0, 1_500));
      const fromMs = Date.now();
      await strike(stage);
      project.noteFault({ fromMs, toMs: Date.now() + AFTERMATH_MS });
      stage.count(what);
      run.say?.(`${project.id}: ${what} for ${Date.now() - fromMs} ms`);
      await starting;
      await delay(stage.random.between(500, 5_000));
    }
  });
}

/** Breaks the network between a worker and a Temporal server of its own, and kills that server (SIGKILL). */
export async function network(run: Omit<Run, 'address'>): Promise<Outcome> {
  const directory = await mkdtemp(join(tmpdir(), 'chaos-network-'));
  const args = ['--db-filename', join(directory, 'temporal.db')];
  let server = await startDevServer({ env: process.env, args });
  const { address, port } = server;
  const proxy = await startTcpProxy(address);
  const longestMs = run.scale > 1 ? 30_000 : 6_000;
  const during = async (mode: ProxyMode, forMs: number) => {
    proxy.set(mode);
    await delay(forMs);
    proxy.set({ kind: 'pass' });
    // Bytes were lost. Later ones would make no sense.
    proxy.cut();
  };
  const outages: OutageOptions['outages'] = {
    cut: () => Promise.resolve(proxy.cut()),
    blackhole: ({ random }) => during({ kind: 'blackhole' }, random.between(1_000, longestMs)),
    // The service takes a message, and its answer reaches a worker that cannot report it.
    async 'report lost'({ projects: [project], simulator }) {
      const { length } = simulator.ledger;
      await project.start(1);
      const untilMs = Date.now() + MESSAGE_TIMEOUT_MS;
      while (simulator.ledger.length === length && Date.now() < untilMs) await delay(5);
      await during({ kind: 'blackhole' }, REPORT_LOST_MS);
    },
    'answers lost': ({ random }) => during({ kind: 'lose-answers' }, random.between(1_000, longestMs)),
    async 'server killed'({ random }) {
      await server.kill();
      await delay(random.between(0, 2_000));
      // An outgoing connection may hold the free port for a moment.
      server = await insist(() => startDevServer({ env: process.env, port, args }));
    },
    delay: ({ random }) => during({ kind: 'delay', ms: random.between(100, 3_000) }, random.between(1_000, longestMs)),
  };
  try {
    const options = { outages, rounds: run.scale, workerAddress: proxy.address };
    return await playOutages('network', { ...run, address }, options);
  } finally {
    await proxy.close();
    await server.stop();
    await rm(directory, { recursive: true, force: true });
  }
}
