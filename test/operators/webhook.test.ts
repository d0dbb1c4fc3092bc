import type { Client } from '@temporalio/client';
import { afterAll, expect, test } from 'vitest';
import { SearchAttribute } from '../../src/contract/index.js';
import { webhookWorkflowId } from '../../src/protocol/index.js';
import { resetWorkflow } from '../support/buttons.js';
import { eventually } from '../support/eventually.js';
import { useStack } from '../support/project.js';
import { newWebhookSecret, startWebhookReceiver } from '../support/webhook-receiver.js';

/** Answers by path. */
const responses: Record<string, number> = { '/down': 503, '/gone': 410 };
const { received, url, close } = await startWebhookReceiver(({ path }) => responses[path] ?? 204);
afterAll(close);

const secrets = [newWebhookSecret()];
const targets = Object.fromEntries(
  ['ci', 'down', 'gone'].map((name) => [name, { url: url(`/${name}`), secrets }] as const),
);
const operated = useStack({ env: { FOLLOW_UP_WEBHOOKS: JSON.stringify(targets) } });

/** Ends a follow-up, and waits for the first attempt to deliver its webhook. */
async function startWebhook(target: string) {
  const project = operated.newProject();
  const followUp = await project.start('job', { notify: [target] });
  await followUp.result();
  const { id } = await eventually('it is tried', () =>
    received.find(({ path, body }) => path === `/${target}` && body.data.workflowId === followUp.workflowId),
  );
  return { followUp, workflowId: webhookWorkflowId({ target, id }) };
}

const client = (): Client => operated.stack.client;

/** What the page of a webhook in the Temporal UI shows, and the state in the list. */
async function pageOf(workflowId: string) {
  const handle = client().workflow.getHandle(workflowId);
  const { typedSearchAttributes, status, staticSummary, staticDetails } = await handle.describe();
  const { currentDetails } = await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata');
  return {
    status: status.name,
    state: typedSearchAttributes.get(SearchAttribute.state),
    fixed: [await staticSummary(), await staticDetails()],
    lines: currentDetails.split('\n'),
  };
}

const shows = (workflowId: string, state: string) =>
  eventually(`it shows ${state}`, async () => {
    const page = await pageOf(workflowId);
    return page.state === state && page.lines[0]?.startsWith(`**${state}: `) ? page : undefined;
  });

const resetCommand = (workflowId: string) =>
  `temporal workflow reset --type FirstWorkflowTask --reason again --workflow-id ${workflowId}`;

test('the page of a webhook that is tried says whose it is, until when it is tried, and what to do', async () => {
  const { followUp, workflowId } = await startWebhook('down');
  const { status, fixed, lines } = await shows(workflowId, 'delivering');
  expect(status).toBe('RUNNING');
  expect(fixed).toEqual([
    'follow-up.ended to down',
    `Of \`${followUp.workflowId}\`. It is tried for 3 days after its start or its reset.`,
  ]);
  const { startTime } = await client().workflow.getHandle(workflowId).describe();
  const day = new Date(startTime.getTime() + 3 * 86_400_000).toISOString().slice(0, 10);
  expect(lines).toContainEqual(expect.stringMatching(/^- event: `follow-up.ended`, .+ UTC$/));
  expect(lines).toContain(`- of: \`${followUp.workflowId}\``);
  expect(lines).toContain("- to: webhook `down` of the workers' settings");
  expect(lines).toContainEqual(expect.stringMatching(new RegExp(`^- tried until: ${day} [\\d:]+ UTC at the latest$`)));
  expect(lines).toContainEqual(expect.stringContaining(`\`temporal workflow terminate --workflow-id ${workflowId}\``));
  expect(lines.at(-1)).toMatch(/^_As of .*_ Newer: the pending activity `deliverWebhook` shows the attempts/);
});

test('the page of a webhook that was given up says so, or when it was last known to be tried', async () => {
  const [cancelled, terminated] = await Promise.all([startWebhook('down'), startWebhook('down')]);
  await client().workflow.getHandle(cancelled.workflowId).cancel();
  await client().workflow.getHandle(terminated.workflowId).terminate('by hand');
  const page = await shows(cancelled.workflowId, 'cancelled');
  expect(page.status).toBe('CANCELLED');
  expect(page.lines[0]).toBe('**cancelled: it is not tried again, but an attempt may have arrived**');
  expect(page.lines).toContainEqual(expect.stringContaining(resetCommand(cancelled.workflowId)));
  expect(page.lines.join()).not.toContain('tried until');
  const { status, lines } = await pageOf(terminated.workflowId);
  expect(status).toBe('TERMINATED');
  expect(lines.at(-1)).toMatch(/^_As of /);
});

test('the page of a webhook that failed names the reason, the attempt and the reset, which delivers it', async () => {
  const { followUp, workflowId } = await startWebhook('gone');
  const { status, lines } = await shows(workflowId, 'not-delivered');
  expect(status).toBe('FAILED');
  expect(lines).toContain('- why: `gone answers HTTP 410 (attempt 1)`');
  expect(lines).toContainEqual(expect.stringContaining(resetCommand(workflowId)));
  expect(lines.join()).not.toContain('tried until');
  responses['/gone'] = 204;
  await resetWorkflow(client(), workflowId, 'first');
  const after = await shows(workflowId, 'delivered');
  expect(after.status).toBe('COMPLETED');
  expect(after.lines).toContain(`- of: \`${followUp.workflowId}\``);
  expect(after.lines.join()).not.toMatch(/tried until|why:/);
});
