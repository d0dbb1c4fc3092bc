import { afterAll, beforeAll, expect, test } from 'vitest';
import { pollNowSignal, progressQuery } from '../../src/contract/index.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { startTimeSkippingRig, type TimeSkippingRig } from '../support/time-skipping.js';

const BEFORE = { id: 'j', status: 'completed', prLink: 'https://git.example/pull/1' };
const ACTIVE = { id: 'j', status: 'active', prLink: null };
const AFTER = { id: 'j', status: 'completed', prLink: 'https://git.example/pull/2' };

/** The events of a follow-up whose job becomes active and then ends. */
const MOST_EVENTS = 29;

describeWith(await findMissing(['time-skipping-server']))('a watch, with time skipped,', () => {
  let rig: TimeSkippingRig;
  let count = 0;
  /** How many looks fail before they begin, as if their worker died. */
  let deathsBeforeLook = 0;
  const target = () => ({ projectId: `watch-${++count}`, jobId: `job-${count}`, prompt: 'x' });
  const many = (times: number, job: typeof ACTIVE) => Array.from({ length: times }, () => job);

  beforeAll(async () => {
    rig = await startTimeSkippingRig({
      beforeActivity: (type) => {
        if (type !== 'watchJob' || deathsBeforeLook === 0) return;
        deathsBeforeLook -= 1;
        throw new Error('the worker died');
      },
    });
  });
  afterAll(() => rig.stop());

  test.each([5, 30, 300])('costs no events for its looks: %i looks', { timeout: 120_000 }, async (looks) => {
    const input = target();
    rig.service.reads(input.jobId, BEFORE, ...many(looks - 1, ACTIVE), AFTER);
    const handle = await rig.start(input);
    expect(await rig.end(handle, 120_000)).toMatchObject({ polls: looks, observedActive: true });
    const { events } = await rig.client.workflow.getHandle(handle.workflowId).fetchHistory();
    expect(events?.length).toBeLessThanOrEqual(MOST_EVENTS);
  });

  test('ends when an extra look shows something new, and is followed by another watch', async () => {
    const input = { ...target(), poll: { initialInterval: '1h', maxInterval: '1h' } };
    rig.service.reads(input.jobId, BEFORE, ACTIVE);
    const handle = await rig.start(input);
    await rig.advance(60_000);
    await handle.signal(pollNowSignal);
    await rig.advance(1_000);
    expect(await handle.query(progressQuery)).toMatchObject({ job: ACTIVE, polls: 1 });
    const { raw } = await rig.client.workflow.getHandle(handle.workflowId).describe();
    expect(raw.pendingActivities?.map(({ activityType }) => activityType?.name)).toEqual(['watchJob']);
    rig.service.reads(input.jobId, AFTER);
    expect(await rig.end(handle, 600_000)).toMatchObject({ status: 'completed', polls: 2 });
  });

  test('does not show a follow-up as blocked because of a single read that fails at the settle time', async () => {
    const input = { ...target(), settleTime: '1m', poll: { initialInterval: '20s', maxInterval: '20s' } };
    const stale = { ...BEFORE, status: 'failed' };
    const failed = { kind: 'failed', reason: 'service', message: 'HTTP 503' } as const;
    rig.service.reads(input.jobId, BEFORE, stale, stale, failed, stale);
    const handle = await rig.start(input);
    expect(await rig.end(handle)).toMatchObject({ status: 'failed' });
    const { events } = await rig.client.workflow.getHandle(handle.workflowId).fetchHistory();
    const states = (events ?? []).flatMap(
      ({ upsertWorkflowSearchAttributesEventAttributes: upsert }) =>
        upsert?.searchAttributes?.indexedFields?.['FollowUpState']?.data?.toString() ?? [],
    );
    expect(states.length).toBeGreaterThan(1);
    expect(states.join()).not.toContain('blocked');
  });

  test('survives workers that die before they look', async () => {
    const input = target();
    rig.service.reads(input.jobId, BEFORE, ACTIVE, ACTIVE, AFTER);
    deathsBeforeLook = 4;
    expect(await rig.end(await rig.start(input))).toMatchObject({ status: 'completed', prLink: AFTER.prLink });
    expect(deathsBeforeLook).toBe(0);
  });
});
