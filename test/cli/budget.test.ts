import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { describeStanding, formatBudgetUpdate, summariseBudgetUpdate } from '../../src/cli/budget-commands.js';
import type { BudgetStatus } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST } from '../support/stack.js';
import { askCli, openCli, runCli, timeless, useStack } from './run-cli.js';

const rig = useStack();
const newProject = () => `cli-budget-${randomUUID().slice(0, 8)}`;
const budget = (...args: string[]) => runCli(['budget', ...args], { env: rig.env });
const ask = (...args: string[]) => askCli(['budget', ...args], { env: rig.env });
const terminate = (projectId: string) => rig.stack.client.workflow.getHandle(`project-budget/${projectId}`).terminate();
const refused = (said: string) => ({ exitCode: 2, stderr: expect.stringContaining(said) });

test('a budget is watched, set, paused and resumed; each command prints its status', async () => {
  const projectId = newProject();
  const watch = openCli(['budget', 'show', projectId, '--watch', '--json'], { env: rig.env });
  await eventually('the watch has begun', () => watch.stdout().includes('"none"'));
  expect((await budget('show', projectId)).stdout).toContain(`project ${projectId} has no budget yet`);
  expect((await ask('show', projectId)).document).toMatchObject({ projectId, state: 'none', used: 0 });
  expect(await budget('resume', projectId)).toMatchObject(refused('BudgetNotFound'));

  // An order that starts a budget takes these from the environment.
  const env = { ...rig.env, FOLLOW_UP_BUDGET_LIMIT: '3', FOLLOW_UP_BUDGET_WINDOW: '10s' };
  const paused = await runCli(['budget', 'pause', projectId, '--for', '30m', '--note', 'release freeze'], { env });
  expect(paused.exitCode, paused.stderr).toBe(0);
  expect(paused.stdout).toMatch(/^paused: by an operator since \S+ \S+, until (?:\S+ )?\S+ \S+ \(release freeze\)\n/);
  expect(paused.stdout).toMatch(/^slots +0 of 3 used in 10 s$/m);
  const resumed = await ask('resume', projectId);
  expect(resumed).toMatchObject({ exitCode: 0, document: { projectId, state: 'running', limit: 3, windowMs: 10_000 } });
  expect(resumed.document).not.toHaveProperty('paused');
  const set = await ask('set', projectId, '--limit', '5', '--window', '60000', '--reserve', '2');
  expect(set.document).toMatchObject({ limit: 5, windowMs: 60_000, reserve: 2 });
  const tooMuch = await budget('set', projectId, '--reserve', '5');
  expect(tooMuch).toMatchObject(refused('must be below limit (limit 5, reserve 5)'));
  await eventually('the watch shows the change', () => watch.stdout().includes('"limit":5'));
  watch.kill('SIGTERM');
  const { exitCode, stdout, stderr } = await watch.ended;
  expect({ exitCode, stderr }).toEqual({ exitCode: 130, stderr: '' });
  const documents = stdout.trim().split('\n');
  expect(JSON.parse(documents[0] ?? '')).toMatchObject({ projectId, state: 'none', used: 0 });
  expect(JSON.parse(documents.at(-1) ?? '')).toMatchObject({ projectId, state: 'running', limit: 5, reserve: 2 });
});

test('take uses all the slots it asks for or none, once per key; restore --assume-full uses every slot', async () => {
  const projectId = newProject();
  await budget('set', projectId, '--limit', '5');
  const first = await ask('take', projectId, '--count', '3', '--key', 'bot');
  const taken = { projectId, key: 'bot', taken: true, count: 3 };
  expect(first).toMatchObject({ exitCode: 0, stderr: 'key bot\n', document: taken });
  expect((await ask('take', projectId, '--count', '3', '--key', 'bot')).document).toEqual(first.document);
  const none = await budget('take', projectId, '--count', '3');
  expect(none).toMatchObject({
    exitCode: 1,
    stdout: expect.stringMatching(/^did not take 3 slots .* are free, possible /),
  });
  expect(await budget('take', projectId, '--count', '6')).toMatchObject(refused('count: must be at most 5'));
  const other = await budget('take', projectId, '--count', '2', '--key', 'bot');
  expect(other).toMatchObject(refused('count: must be 3, which the key took'));
  expect((await ask('audit', projectId)).documents).toMatchObject([{ workflowId: 'take/bot', outcome: 'taken' }]);

  await terminate(projectId);
  const full = await ask('restore', projectId, '--assume-full');
  const restored = { projectId, settings: { limit: 5 }, stopped: { status: 'terminated' } };
  expect(full).toMatchObject({ exitCode: 0, document: restored });
  const isFull = async () => (await budget('show', projectId)).stdout.includes('5 of 5 used in 1 h');
  await eventually('every slot is used', isFull);
});

test('a send is shown and audited; a terminated budget accepts no commands until restore starts it again', async () => {
  const projectId = newProject();
  expect(await ask('audit', projectId)).toMatchObject({ exitCode: 0, documents: [] });
  expect(await budget('restore', projectId)).toMatchObject(refused('BudgetNotFound'));
  await rig.stack.followUps.run({ projectId, jobId: 'job-1', prompt: 'Add tests.', key: 'k', ...FAST });
  expect((await budget('show', projectId)).stdout).toMatch(/^slots +1 of 100 used in 1 h$/m);
  const workflowId = `follow-up/${projectId}/job-1/k`;
  expect((await ask('audit', projectId)).documents).toMatchObject([{ workflowId, sendNumber: 1, outcome: 'sent' }]);
  const [header, row] = (await budget('audit', projectId)).stdout.split('\n');
  expect(header).toMatch(/^granted +reported +outcome +send +workflow$/);
  expect(timeless(row ?? '')).toMatch(/^TIME {2}TIME {2}sent +1 +follow-up\//);
  expect(await budget('restore', projectId)).toMatchObject(refused('BudgetRunning'));

  await terminate(projectId);
  expect((await budget('show', projectId)).stdout).toMatch(/^STOPPED: .*"follow-up budget restore \S+"\n/);
  const ordered = await ask('set', projectId, '--limit', '5');
  expect(ordered).toMatchObject({ exitCode: 1, document: { error: { type: 'BudgetStopped' } } });
  const restored = await budget('restore', projectId);
  expect(restored.exitCode, restored.stderr).toBe(0);
  expect(restored.stdout).toMatch(/^the budget of \S+ runs again; .* \(terminated\)\n.*\nthe limit is 100 in 1 h, /);
});

test('the text of a budget shows slots, pause, line and sends, and its summary is one line', () => {
  const now = new Date('2026-01-02T03:04:05Z');
  const at = now.toISOString();
  const soon = new Date(now.getTime() + 90_000).toISOString();
  const status: BudgetStatus = {
    ...{ projectId: 'p', limit: 4, windowMs: 3_600_000, reserve: 1, used: 6, underWay: 2, remembersSince: at },
    ...{ nextFreeSlotAt: soon, waitingTotal: 3, waitingInBatchLane: 0, waitingForJob: 1 },
    paused: { reasons: ['operator', 'limited'], since: at, until: soon, note: 'freeze\u001b[2J' },
    waiting: [
      { workflowId: 'follow-up/p/a/k', lane: 'batch', position: 1, expectedAt: soon },
      { workflowId: 'follow-up/p/b/k', lane: 'interactive', position: 2, refusal: { reason: 'payment', until: soon } },
    ],
    lastSends: [{ workflowId: 'follow-up/p/c/k', sendNumber: 1, grantedAt: at, outcome: 'sent' }],
  };
  expect(timeless(formatBudgetUpdate('p', { state: 'running', status }))).toMatchInlineSnapshot(`
    "paused: by an operator, and the service answers 429 since TIME, until TIME (freeze)
    slots       6 of 4 used in 1 h
    reserved    1 for the interactive lane
    being sent  2
    next slot   TIME
    waiting     3, 0 of them in the batch lane, 1 for their job
    to do       follow-up budget resume p, if the pause is no longer wanted

    Waiting
      position 1: follow-up/p/a/k, batch lane, expected TIME
      position 2: follow-up/p/b/k, interactive lane, the service answers 402, but accepts others, tries again TIME

    Last sends
      TIME: delivered, follow-up/p/c/k"
  `);
  const silent = { state: 'stopped', status, statusUnavailable: 'no worker' } as const;
  expect(timeless(summariseBudgetUpdate('p', silent))).toMatchInlineSnapshot(
    `"STOPPED: nothing is sent until "follow-up budget restore p", no response: no worker; last known:, as of its end:, slots 6 of 4 used in 1 h, reserved 1 for the interactive lane, being sent 2, waiting 3, 0 of them in the batch lane, 1 for their job, last send TIME: delivered, follow-up/p/c/k"`,
  );
});

test('what a budget does is said also if it does not answer, or does not run', () => {
  const silent = { state: 'running', statusUnavailable: 'no worker' } as const;
  expect(describeStanding('p', silent)).toEqual({ budget: 'no response: no worker', nextSteps: [] });
  const { budget, nextSteps } = describeStanding('p', { state: 'stopped' });
  expect(budget).toContain('follow-up budget restore p');
  expect(nextSteps).toEqual([]);
});
