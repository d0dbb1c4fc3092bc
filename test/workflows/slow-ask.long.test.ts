import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { failureOf } from '../support/failure-of.js';
import { ScriptedService } from '../support/scripted-service.js';
import { startWorkflowRig, type WorkflowRig } from '../support/workflow-rig.js';

let release = (): void => undefined;
const released = new Promise<void>((resolve) => (release = resolve));

/** Its jobs are read once `release` is called. */
class SlowService extends ScriptedService {
  override async getJob(job: { jobId: string }) {
    await released;
    return super.getJob(job);
  }
}

let rig: WorkflowRig;
beforeAll(async () => {
  const agentJobs = new SlowService().reads('j', { id: 'j', status: 'completed', prLink: null });
  rig = await startWorkflowRig({ address: inject('temporalAddress'), agentJobs, leaseMs: 6_000 });
});
afterAll(() => rig.stop());

test('a cancel during a slow ask waits for its reply: a local activity is never cancelled', async () => {
  const { workflowId } = await rig.start({ projectId: `p-${randomUUID()}`, jobId: 'j', prompt: 'x' });
  const handle = rig.client.workflow.getHandle(workflowId);
  const events = async () => (await handle.fetchHistory()).events ?? [];
  await eventually('it has asked', async () =>
    (await events()).some((event) => event.workflowTaskStartedEventAttributes),
  );
  await handle.cancel();
  // A workflow task that waits for a local activity is completed after 8 s; the next one knows of the cancel.
  const isTold = async () => (await events()).filter((event) => event.workflowTaskStartedEventAttributes).length > 1;
  await eventually('it knows of the cancel', isTold);
  release();
  expect(await failureOf(handle.result())).toMatchObject({ type: 'Canceled' });
  expect((await events()).filter((event) => event.workflowTaskFailedEventAttributes)).toEqual([]);
  const markers = (await events()).flatMap(({ markerRecordedEventAttributes: marker }) => (marker ? [marker] : []));
  expect(markers.length).toBeGreaterThan(0);
  expect(markers.map(({ failure }) => failure?.message)).toEqual(markers.map(() => undefined));
});
