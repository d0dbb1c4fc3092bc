import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { FAST, type Stack, startStack } from '../support/stack.js';

const STALE_MS = 1_000;
/** Shorter than the stale window, so no read ever shows the job at work. */
const TURN_MS = 400;

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({
    address: inject('temporalAddress'),
    // Only the message without an answer waits this long.
    env: { FOLLOW_UP_SEND_TIMEOUT: '10s' },
    simulator: {
      staleWindowMs: STALE_MS,
      turn: { minMs: TURN_MS, maxMs: TURN_MS },
      // The answer to a message says "active", which reads show only a second later.
      statusInPostResponse: true,
    },
  });
});
afterAll(() => stack.stop());

const projectId = `stale-${Date.now()}`;
function makeJob(jobId: string) {
  stack.simulator.addJob({ projectId, jobId });
  return { projectId, jobId, prompt: `message to ${jobId}`, ...FAST, settleTime: '5s' };
}
const truth = (jobId: string) => stack.simulator.job(projectId, jobId)?.prLink;
const acceptedBy = (jobId: string) =>
  stack.simulator.ledger.filter((entry) => entry.jobId === jobId && entry.accepted).length;

test.concurrent('three messages in a row to one job each get the pull request of their own turn', async () => {
  const input = makeJob('in-a-row');
  const links = [truth('in-a-row')];
  for (let turn = 1; turn <= 3; turn++) {
    const result = await stack.followUps.run({ ...input, prompt: `message ${turn}` });
    expect(result).toMatchObject({ delivery: 'sent', prLinkChanged: true, observedActive: true });
    expect(result.prLink).toBe(truth('in-a-row'));
    expect(links).not.toContain(result.prLink);
    links.push(result.prLink);
  }
  expect(acceptedBy('in-a-row')).toBe(3);
});

test.concurrent.each([
  ['error', { status: 503 }],
  ['reset', 'reset'],
  ['hang', 'hang'],
] as const)(
  'a message whose answer is lost (%s) counts as delivered after the stale window, and is not sent again',
  async (name, how) => {
    const jobId = `lost-${name}`;
    const input = makeJob(jobId);
    stack.simulator.failNext({ method: 'POST', projectId, jobId, when: 'after', how });
    const result = await stack.followUps.run(input);
    expect(result).toMatchObject({ delivery: 'inferred', prLinkChanged: true, observedActive: false });
    expect(result.prLink).toBe(truth(jobId));
    expect(acceptedBy(jobId)).toBe(1);
  },
);
