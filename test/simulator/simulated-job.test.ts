import { describe, expect, test } from 'vitest';
import { SimulatedJob, type Turn } from '../../src/simulator/simulated-job.js';

const REPOSITORY = 'https://git.example/p/j';
const OLD_LINK = `${REPOSITORY}/pull/1`;

function newJob(): SimulatedJob {
  return new SimulatedJob(
    {
      id: 'j',
      status: 'completed',
      source: { repository: REPOSITORY, ref: 'main' },
      model: 'm',
      prLink: OLD_LINK,
      createdAt: new Date(0).toISOString(),
      archivedAt: null,
    },
    {},
  );
}

function turn(change: Partial<Turn> = {}): Turn {
  return {
    durationMs: 100,
    outcome: 'completed',
    prLink: 'new',
    prLinkWhileActive: 'null',
    staleWindowMs: 0,
    ...change,
  };
}

describe('a simulated job', () => {
  test('is active without a link from a message to the end of the turn, then completed with a new link', () => {
    const job = newJob();
    job.message(1_000, turn());
    expect(job.shown(1_000)).toMatchObject({ status: 'active', prLink: null });
    expect(job.shown(1_099)).toMatchObject({ status: 'active', prLink: null });
    expect(job.shown(1_100)).toMatchObject({ status: 'completed', prLink: `${REPOSITORY}/pull/2` });
  });

  test('keeps the earlier link when a turn fails', () => {
    const job = newJob();
    job.message(1_000, turn({ outcome: 'failed' }));
    expect(job.truth(1_100)).toMatchObject({ status: 'failed', prLink: OLD_LINK, archivedAt: null });
  });

  test('gives the time when it was archived', () => {
    const job = newJob();
    job.message(1_000, turn({ outcome: 'archived' }));
    expect(job.truth(5_000)).toMatchObject({ status: 'archived', archivedAt: new Date(1_100).toISOString() });
  });

  test('ends with the previous link, none, or a given one, as its turn says', () => {
    const links = (['same', 'none', { url: 'https://other.example/1' }] as const).map((prLink) => {
      const job = newJob();
      job.message(0, turn({ prLink }));
      return job.truth(100).prLink;
    });
    expect(links).toEqual([OLD_LINK, null, 'https://other.example/1']);
  });

  test('shows the old turn within the stale window, even past the end of the new one', () => {
    const job = newJob();
    job.message(1_000, turn({ staleWindowMs: 500 }));
    expect(job.truth(1_000).status).toBe('active');
    expect(job.shown(1_050)).toMatchObject({ status: 'completed', prLink: OLD_LINK });
    expect(job.shown(1_499)).toMatchObject({ status: 'completed', prLink: OLD_LINK });
    expect(job.shown(1_500)).toMatchObject({ status: 'completed', prLink: `${REPOSITORY}/pull/2` });
  });

  test('moves the end of a running turn when it is steered, and keeps the previous link', () => {
    const job = newJob();
    job.message(1_000, turn());
    job.message(1_090, turn({ outcome: 'failed' }));
    expect(job.truth(1_150).status).toBe('active');
    expect(job.truth(1_190)).toMatchObject({ status: 'failed', prLink: OLD_LINK });
    expect(job.messages).toBe(2);
  });

  test('never ends a turn without an end', () => {
    const job = newJob();
    job.message(0, turn({ durationMs: Number.POSITIVE_INFINITY, outcome: 'archived' }));
    expect(job.truth(Number.MAX_SAFE_INTEGER).status).toBe('active');
  });
});
