import type { WorkflowHandle } from '@temporalio/client';
import { expect, onTestFinished, test } from 'vitest';
import { webhookWorkflowId } from '../../src/protocol/index.js';
import { eventually } from '../support/eventually.js';
import { failureOf } from '../support/failure-of.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { FAST, startStack } from '../support/stack.js';
import { createTimeSkippingEnvironment, withoutList } from '../support/time-skipping-server.js';
import { newWebhookSecret, startWebhookReceiver } from '../support/webhook-receiver.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const missing = await findMissing(['time-skipping-server']);

describeWith(missing)('a receiver of webhooks', () => {
  test('gets each webhook once if it is down for a day, and none if it is down for three days', async () => {
    const environment = await createTimeSkippingEnvironment({ env: process.env });
    onTestFinished(() => environment.teardown());
    let backAtMs = Infinity;
    const { received, url, close } = await startWebhookReceiver(async ({ path }) =>
      path === '/back' && (await environment.currentTimeMs()) >= backAtMs ? 204 : 503,
    );
    onTestFinished(close);
    const secrets = [newWebhookSecret()];
    const targets = { back: { url: url('/back'), secrets }, never: { url: url('/never'), secrets } };
    const stack = await startStack({
      address: environment.address,
      env: { FOLLOW_UP_WATCHES: '0', FOLLOW_UP_WEBHOOKS: JSON.stringify(targets) },
      worker: { interceptors: { activity: [withoutList] } },
    });
    onTestFinished(() => stack.stop());
    const jobIds = ['job-1', 'job-2', 'job-3'];
    for (const jobId of jobIds) {
      stack.simulator.addJob({ projectId: 'demo', jobId });
      const notify = jobId === 'job-1' ? ['back', 'never'] : ['back'];
      const { workflowId } = await stack.followUps.start({ projectId: 'demo', jobId, prompt: 'x', notify, ...FAST });
      await environment.client.workflow.getHandle(workflowId).result();
    }
    const idsOf = (target: string) => [
      ...new Set(received.filter(({ path }) => path === `/${target}`).map(({ id }) => id)),
    ];
    await eventually('all have been tried', () => idsOf('back').length === 3 && idsOf('never').length === 1);
    const webhookOf = (target: string) => (webhookId: string) =>
      environment.client.workflow.getHandle(webhookWorkflowId({ target, id: webhookId }));
    const lifeMs = async (webhook: WorkflowHandle) => {
      const { startTime, closeTime, status } = await webhook.describe();
      return { ms: Number(closeTime) - Number(startTime), status: status.name };
    };
    const [id = ''] = idsOf('never');
    const webhooks = idsOf('back').map(webhookOf('back'));
    const givenUp = webhookOf('never')(id);
    backAtMs = (await environment.currentTimeMs()) + DAY_MS;
    // Time skips while this result is awaited.
    const ended = failureOf(givenUp.result());
    ended.catch(() => undefined);
    const completed = async () =>
      (await Promise.all(webhooks.map(lifeMs))).filter(({ status }) => status === 'COMPLETED').length;
    for (let count = 1; count <= 3; count++) {
      await eventually(`${count} are delivered`, async () => (await completed()) >= count);
      // This server stops skipping when an abandoned child ends.
      await environment.connection.testService?.unlockTimeSkipping({});
    }
    const failure = await ended;
    expect(failure).toMatchObject({
      type: 'WebhookNotDelivered',
      message: expect.stringMatching(/^never answers HTTP 503 \(attempt \d+\)$/),
    });

    const taken = received.filter(({ response }) => response === 204);
    expect(taken.map(({ body }) => 'jobId' in body.data && body.data.jobId).sort()).toEqual(jobIds);
    expect(new Set(taken.map((attempt) => attempt.id)).size).toBe(3);
    for (const { ms } of await Promise.all(webhooks.map(lifeMs))) {
      expect(ms).toBeGreaterThanOrEqual(DAY_MS);
      // The last wait is about an hour.
      expect(ms).toBeLessThan(DAY_MS + 2 * HOUR_MS);
    }

    const days = (await lifeMs(givenUp)).ms / DAY_MS;
    expect(days).toBeGreaterThan(3 - 1.3 / 24);
    expect(days).toBeLessThanOrEqual(3.01);
    const page = await givenUp.query<{ currentDetails: string }>('__temporal_workflow_metadata');
    expect(page.currentDetails).toMatch(/^\*\*not-delivered: [^]*why: `never answers HTTP 503 \(attempt \d+\)`/);
    expect(page.currentDetails).toContain('temporal workflow reset --type FirstWorkflowTask');
    expect(page.currentDetails).not.toMatch(/tried until|Newer/);
    const tries = received.filter(({ path }) => path === '/never');
    expect(new Set(tries.map((attempt) => attempt.id))).toEqual(new Set([id]));
    // Ten waits double to an hour, and 70 of about an hour follow.
    expect(tries.length).toBeGreaterThan(60);
    expect(tries.length).toBeLessThan(110);
  }, 300_000);
});
