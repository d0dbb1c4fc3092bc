import { describe, expect, test } from 'vitest';
import { JobStore, type NewJob, SimulatedJob } from '../../src/simulator/jobs.js';
import { toSettings } from '../../src/simulator/options.js';
import { createRandom } from '../../src/simulator/random.js';

const REPOSITORY = 'https://git.example/p/j';
const OLD_LINK = `${REPOSITORY}/pull/1`;

/** A job whose turns take 100 ms. */
function newJob(behaviour: NewJob['behaviour'] = {}, staleWindowMs = 0): SimulatedJob {
  const source = { repository: REPOSITORY, ref: 'main' };
  const createdAt = new Date(0).toISOString();
  return new SimulatedJob(
    { id: 'j', status: 'completed', source, model: 'm', createdAt, archivedAt: null },
    behaviour,
    { turn: { minMs: 100, maxMs: 100 }, staleWindowMs },
    createRandom(1),
  );
}

describe('a simulated job', () => {
  test('is active without a link from a message to the end of the turn, then completed with a new link', () => {
    const job = newJob();
    expect(job.truth(999).prLink).toBe(OLD_LINK);
    job.message(1_000);
    expect(job.shown(1_000)).toMatchObject({ status: 'active', prLink: null });
    expect(job.shown(1_099)).toMatchObject({ status: 'active', prLink: null });
    expect(job.shown(1_100)).toMatchObject({ status: 'completed', prLink: `${REPOSITORY}/pull/2` });
  });

  test('keeps the earlier link when a turn fails', () => {
    const job = newJob({ outcome: 'failed' });
    job.message(1_000);
    expect(job.truth(1_100)).toMatchObject({ status: 'failed', prLink: OLD_LINK, archivedAt: null });
  });

  test('gives the time when it was archived', () => {
    const job = newJob({ outcome: 'archived' });
    job.message(1_000);
    expect(job.truth(5_000)).toMatchObject({ status: 'archived', archivedAt: new Date(1_100).toISOString() });
  });

  test('ends with the previous link, none, or a given one, as its behaviour says', () => {
    const links = (['same', 'none', { url: 'https://other.example/1' }] as const).map((prLinkAfterTurn) => {
      const job = newJob({ prLinkAfterTurn });
      job.message(0);
      return job.truth(100).prLink;
    });
    expect(links).toEqual([OLD_LINK, null, 'https://other.example/1']);
  });

  test('shows the old turn within the stale window, even past the end of the new one', () => {
    const job = newJob({}, 500);
    job.message(1_000);
    expect(job.truth(1_000).status).toBe('active');
    expect(job.shown(1_050)).toMatchObject({ status: 'completed', prLink: OLD_LINK });
    expect(job.shown(1_499)).toMatchObject({ status: 'completed', prLink: OLD_LINK });
    expect(job.shown(1_500)).toMatchObject({ status: 'completed', prLink: `${REPOSITORY}/pull/2` });
  });

  test('moves the end of a running turn when it is steered, and keeps the previous link', () => {
    const job = newJob({ outcome: 'failed' });
    job.message(1_000);
    job.message(1_090);
    expect(job.truth(1_150).status).toBe('active');
    expect(job.truth(1_190)).toMatchObject({ status: 'failed', prLink: OLD_LINK });
    expect(job.messages).toBe(2);
  });

  test('never ends a turn without an end', () => {
    const job = newJob({ neverEnds: true, outcome: 'archived' });
    job.message(0);
    expect(job.truth(Number.MAX_SAFE_INTEGER).status).toBe('active');
  });

  test('has turns that depend on the seed and its own messages alone', () => {
    const settings = toSettings({ turn: { minMs: 1_000, maxMs: 1_000_000 } });
    const endsOf = (seed: number, jobIds: string[]) => {
      const store = new JobStore(settings, createRandom(seed));
      for (const jobId of jobIds) store.add({ projectId: 'p', jobId, status: 'active' }, 0);
      return jobIds.sort().map((jobId) => store.get('p', jobId)?.truth(1_000_000).archivedAt);
    };
    expect(endsOf(1, ['archive-2', 'archive-1'])).toEqual(endsOf(1, ['archive-1', 'archive-2']));
    expect(new Set([...endsOf(1, ['archive-1', 'archive-2']), ...endsOf(2, ['archive-1'])]).size).toBe(3);
  });
});
