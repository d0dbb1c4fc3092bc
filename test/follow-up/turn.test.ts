import { describe, expect, test } from 'vitest';
import { followUpInputSchema } from '../../src/contract/index.js';
import { FollowUpFlow } from '../../src/follow-up/flow.js';
import type { FollowUpPort, ShownAttributes } from '../../src/follow-up/port.js';
import { newFollowUpState, newWatching, type FollowUpState } from '../../src/follow-up/state.js';

const OLD = { status: 'completed', prLink: 'https://git.example/pull/1' };
const NEW = 'https://git.example/pull/2';
const settings = followUpInputSchema.parse({ projectId: 'p', jobId: 'j', prompt: 'x' });

/** A follow-up, and its search attributes as Temporal would keep them. */
function shown() {
  const attributes: Partial<ShownAttributes> = {};
  const port = {
    nowMs: () => 0,
    show: (_progress: unknown, changed: Partial<ShownAttributes>) => Object.assign(attributes, changed),
  } as unknown as FollowUpPort;
  const state = newFollowUpState({ startedAtMs: 0, isFirstRun: true, settings });
  const flow = new FollowUpFlow(settings, state, port);
  const see = (job: NonNullable<FollowUpState['seen']>['job'], isSinceSend: boolean) => {
    state.seen = { job, atMs: 0, isSinceSend };
  };
  const watch = () => {
    const watching = newWatching(OLD, { delivery: 'sent', sentAtMs: 0, intervalMs: 1 });
    state.phase = watching;
    return watching;
  };
  return { attributes, flow, see, watch };
}

describe('the search attributes show status and pull request of this message’s turn only', () => {
  test('before the send they show neither, although the job has those of the previous turn', () => {
    const { attributes, flow, see } = shown();
    see(OLD, false);
    flow.show({ state: 'waiting-for-budget', waitReason: 'slot', position: 1, expectedSendAtMs: null });
    expect(attributes).toEqual({ projectId: 'p', jobId: 'j', state: 'waiting-for-budget' });
    expect(flow.progress()).toMatchObject({ job: OLD });
    expect(flow.progress()).not.toHaveProperty('prLink');
    expect(flow.progress()).not.toHaveProperty('jobStatus');
  });

  test('after the send they ignore a read from before it', () => {
    const { attributes, flow, see, watch } = shown();
    see({ ...OLD, status: 'active' }, false);
    watch();
    flow.show({ state: 'polling', nextLookAtMs: null });
    expect(attributes).not.toHaveProperty('jobStatus');
    expect(attributes).not.toHaveProperty('prLink');
  });

  test('while the job still shows its old end, they show neither', () => {
    const { attributes, flow, see, watch } = shown();
    see(OLD, true);
    watch();
    flow.show({ state: 'polling', nextLookAtMs: null });
    expect(attributes).not.toHaveProperty('jobStatus');
    expect(attributes).not.toHaveProperty('prLink');
  });

  test('while the agent works, they show a new link, but not that of the previous turn', () => {
    const { attributes, flow, see, watch } = shown();
    watch();
    see({ ...OLD, status: 'active' }, true);
    flow.show({ state: 'polling', nextLookAtMs: null });
    expect(attributes).toMatchObject({ jobStatus: 'active' });
    expect(attributes).not.toHaveProperty('prLink');
    see({ status: 'active', prLink: NEW }, true);
    flow.show({ state: 'polling', nextLookAtMs: null });
    expect(attributes).toMatchObject({ jobStatus: 'active', prLink: NEW });
  });

  test('at a believed end they show both, even if the pull request is the same as before', () => {
    const { attributes, flow, see, watch } = shown();
    watch().terminalSeen = true;
    see(OLD, true);
    flow.show({ state: 'completed' });
    expect(attributes).toMatchObject({ state: 'completed', jobStatus: 'completed', prLink: OLD.prLink });
    expect(flow.progress()).toMatchObject({ jobStatus: 'completed', prLink: OLD.prLink });
  });

  test('when the message is sent again, they are cleared', () => {
    const { attributes, flow, see, watch } = shown();
    watch();
    see({ status: 'active', prLink: NEW }, true);
    flow.show({ state: 'polling', nextLookAtMs: null });
    flow.state.phase = newFollowUpState({ startedAtMs: 0, isFirstRun: true, settings }).phase;
    flow.show({ state: 'sending' });
    expect(attributes).toMatchObject({ jobStatus: null, prLink: null });
  });
});
