import { expect, test } from 'vitest';
import { type NewJob, SimulatedJob } from '../../src/simulator/jobs.js';
import { createRandom } from '../../src/simulator/random.js';

const REPOSITORY = 'https://git.example/p/j';
const [prLink, newLink] = [1, 2].map((number) => `${REPOSITORY}/pull/${number}`);
const ended = { status: 'completed', prLink: newLink };
const atWork = { status: 'active' };
const old = { status: 'completed', prLink };

/** What the job is at given times, or shows, and how it behaves. Its turns take 100 ms, and begin with its messages. */
type Case = [what: string, messagesAtMs: number[], truth: Record<number, object>, more?: More];
type More = { behaves?: NewJob['behaviour']; staleWindowMs?: number; shown?: Record<number, object> };
const fails: More = { behaves: { outcome: 'failed' } };
const archived = { status: 'archived', archivedAt: new Date(100).toISOString() };
const cases: Case[] = [
  [
    'is active without a link from a message to the end of the turn, then completed with a new link',
    [1_000],
    {},
    { shown: { 1_000: { ...atWork, prLink: null }, 1_099: { ...atWork, prLink: null }, 1_100: ended } },
  ],
  ['keeps the earlier link when a turn fails', [0], { 100: { status: 'failed', prLink } }, fails],
  ['gives the time when it was archived', [0], { 5_000: archived }, { behaves: { outcome: 'archived' } }],
  ['ends with the previous link', [0], { 100: { prLink } }, { behaves: { prLinkAfterTurn: 'same' } }],
  ['ends without a link', [0], { 100: { prLink: null } }, { behaves: { prLinkAfterTurn: 'none' } }],
  ['ends with a given link', [0], { 100: { prLink: 'x' } }, { behaves: { prLinkAfterTurn: { url: 'x' } } }],
  [
    'shows the old turn within the stale window, even past the end of the new one',
    [0],
    { 0: atWork },
    { staleWindowMs: 500, shown: { 50: old, 499: old, 500: ended } },
  ],
  [
    'moves the end of its turn when another message comes during it',
    [0, 90],
    { 150: atWork, 190: { status: 'failed', prLink } },
    fails,
  ],
  [
    'stays at work if its turn never ends',
    [0],
    { [Number.MAX_SAFE_INTEGER]: atWork },
    { behaves: { neverEnds: true } },
  ],
];

test.each(cases)(
  'a simulated job %s',
  (_what, messagesAtMs, truth, { behaves = {}, staleWindowMs = 0, shown = {} } = {}) => {
    const source = { repository: REPOSITORY, ref: 'main' };
    const dates = { createdAt: new Date(0).toISOString(), archivedAt: null };
    const before = { id: 'j', status: 'completed', source, model: 'm', ...dates } as const;
    const settings = { turn: { minMs: 100, maxMs: 100 }, staleWindowMs };
    const job = new SimulatedJob(before, behaves, settings, createRandom(1));
    expect(job.truth(-1).prLink).toBe(prLink);
    for (const atMs of messagesAtMs) job.message(atMs);
    for (const [atMs, expected] of Object.entries(truth)) expect(job.truth(Number(atMs))).toMatchObject(expected);
    for (const [atMs, expected] of Object.entries(shown)) expect(job.shown(Number(atMs))).toMatchObject(expected);
    expect(job.messages).toBe(messagesAtMs.length);
  },
);
