import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { type Simulator, startSimulator } from '../../src/simulator/index.js';
import { createRandom, type Random } from '../../src/simulator/random.js';
import { ensureSearchAttributes } from '../../src/temporal/search-attributes.js';
import { contradictions } from '../../test/support/contradictions.js';
import {
  newWebhookSecret,
  type ReceivedWebhook,
  startWebhookReceiver,
  type WebhookReceiver,
} from '../../test/support/webhook-receiver.js';
import { check, checkWebhooks, type Violation } from './checker.js';
import { Project, RECEIVER, RECOVERY_MS } from './project.js';

/** What a scenario is run with: the seed of every random choice, its size, and `host:port` of a Temporal server. */
export interface Run {
  seed: number;
  /** 1 is the short form. */
  scale: number;
  address: string;
  /** Receives what happens. */
  say?: (line: string) => void;
}

/** How often each thing was done, how follow-ups ended, and what is wrong. */
export interface Outcome {
  counts: Record<string, number>;
  violations: Violation[];
}

/** What a scenario plays on. */
export interface Stage {
  readonly projects: readonly [Project, ...Project[]];
  readonly simulator: Simulator;
  readonly receiver: WebhookReceiver;
  readonly random: Random;
  count(what: string): void;
}

/** Options of {@link play}. */
export interface PlayOptions {
  /** How many projects, each with workers of its own. @default 1 */
  projects?: number;
  /** Where workers find Temporal. @default the address of the run */
  workerAddress?: string;
}

/** So small that it matters, and recovery takes seconds. */
const BUDGET = { limit: 30, windowMs: 10_000 };
const SERVICE = {
  autoCreate: true,
  limiter: null,
  turn: { minMs: 300, maxMs: 900 },
  latency: { minMs: 100, maxMs: 1_000 },
} as const;

/**
 * Lets `act` break what it likes, waits for the end of every follow-up and for its webhook, and judges by the ledger of
 * the service, which refuses nothing, and by what the receiver of webhooks got. Both run in this process, which
 * nothing breaks: workers and Temporal have their own.
 */
export async function play(
  name: string,
  { seed, address, say }: Run,
  { projects: projectCount = 1, workerAddress = address }: PlayOptions,
  act: (stage: Stage) => Promise<void>,
): Promise<Outcome> {
  const random = createRandom(seed).fork(name);
  const counts: Record<string, number> = {};
  const count = (what: string) => void (counts[what] = (counts[what] ?? 0) + 1);
  const connection = await Connection.connect({ address });
  const client = new Client({ connection });
  // Otherwise a worker makes them, but follow-ups start before any worker.
  await ensureSearchAttributes(connection, client.options.namespace);
  const simulator = await startSimulator({ seed, ...SERVICE });
  const receiver = await startUnreliableReceiver(random.fork('receiver'));
  const target = { url: receiver.url('/webhook'), secrets: [newWebhookSecret()] };
  const settings = {
    TEMPORAL_ADDRESS: workerAddress,
    AGENT_JOBS_BASE_URL: simulator.baseUrl,
    AGENT_JOBS_API_KEY: simulator.apiKey,
    FOLLOW_UP_BUDGET_LIMIT: String(BUDGET.limit),
    FOLLOW_UP_BUDGET_WINDOW: `${BUDGET.windowMs}ms`,
    FOLLOW_UP_WEBHOOKS: JSON.stringify({ [RECEIVER]: target }),
  };
  const runId = randomUUID().slice(0, 8);
  const newProject = (number: number) => {
    // A worker that remembers one workflow replays at nearly every task.
    const memory = number % 2 === 1 ? { FOLLOW_UP_CACHED_WORKFLOWS: '1' } : {};
    return new Project(`${name}-${runId}-${number}`, client, random.fork(`${number}`), { ...settings, ...memory });
  };
  const others = Array.from({ length: projectCount - 1 }, (_, index) => newProject(index + 1));
  const projects: Stage['projects'] = [newProject(0), ...others];
  const close = () => Promise.all(projects.map((project) => project.close()));
  try {
    const violations: Violation[] = [];
    await act({ projects, simulator, receiver, random, count });
    for (const project of projects) project.keepWorker();
    const untilMs = Date.now() + RECOVERY_MS;
    await Promise.all(projects.map((project) => project.collect(untilMs)));
    const ends = projects.flatMap((project) => project.ends);
    const unreported = () => checkWebhooks(ends, receiver.received).filter(({ kind }) => kind === 'unreported');
    while (unreported().length > 0 && Date.now() < untilMs) await delay(1_000);
    await close();
    violations.push(...checkWebhooks(ends, receiver.received));
    for (const { id, records, batchWords, faults, workers } of projects) {
      const arrivals = simulator.ledger.filter(({ projectId }) => projectId.split('~')[0] === id);
      const departures = workers.flatMap(({ exitCode, log }) =>
        exitCode === undefined ? [] : [{ worker: `a worker of ${id}`, exitCode, log }],
      );
      const found = check({ followUps: records, arrivals, faults, departures, ...BUDGET });
      const items = new Set<string | null>(batchWords.map(({ marker }) => marker));
      const ofItems = arrivals.filter(({ prompt }) => items.has(prompt));
      found.push(...check({ followUps: batchWords, arrivals: ofItems, faults, limit: Infinity, windowMs: 1 }));
      found.push(...(await contradictions(client, id, true)));
      if (found.length > 0) for (const { log } of workers) say?.(log);
      violations.push(...found);
      for (const { ending } of records) {
        count('followUps');
        count(`delivered: ${ending?.delivered}`);
      }
    }
    for (const _id of new Set(receiver.received.map(({ id }) => id))) count('webhooks');
    return { counts, violations };
  } finally {
    await close();
    await simulator.close();
    receiver.close();
    await connection.close();
  }
}

/** Refuses some first attempts, and cuts the connection of others when it has read them. */
function startUnreliableReceiver(random: Random): Promise<WebhookReceiver> {
  const known = new Set<string>();
  return startWebhookReceiver(({ id }) => {
    if (known.has(id)) return 204;
    known.add(id);
    return ([503, 'cut', 204] satisfies ReceivedWebhook['response'][])[random.between(0, 2)]!;
  });
}
