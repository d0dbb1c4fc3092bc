import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { describeBudgetUpdate, summariseBudgetUpdate } from '../../src/cli/budget.js';
import { fitFrame } from '../../src/cli/progress.js';
import type { BudgetStatus } from '../../src/contract/index.js';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type Stack } from '../support/stack.js';
import { openCli, runCli } from './run-cli.js';

let stack: Stack;
let env: Record<string, string>;

beforeAll(async () => {
  const address = inject('temporalAddress');
  stack = await startStack({ address, simulator: { autoCreate: true } });
  env = { TEMPORAL_ADDRESS: address, FOLLOW_UP_TASK_QUEUE: stack.taskQueue };
});
afterAll(() => stack.stop());

const newProject = () => `cli-budget-${randomUUID().slice(0, 8)}`;
const budget = (...args: string[]) => runCli(['budget', ...args], { env });
const send = (projectId: string, jobId: string) =>
  stack.followUps.run({ projectId, jobId, prompt: 'Add tests.', key: 'k', ...FAST });
const terminate = (projectId: string) =>
  stack.client.workflow.getHandle(stack.followUps.budget(projectId).workflowId).terminate('by hand');
const linesOf = (stdout: string): unknown[] =>
  stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as unknown);

describe('orders', () => {
  test('set changes what it is given, starts a budget that does not exist yet, and prints its status', async () => {
    const projectId = newProject();
    const first = await budget('set', projectId, '--limit', '7', '--json');
    expect(first.exitCode, first.stderr).toBe(0);
    expect(JSON.parse(first.stdout)).toMatchObject({
      projectId,
      state: 'running',
      limit: 7,
      windowMs: 3_600_000,
      reserve: 0,
    });
    const second = await budget('set', projectId, '--window', '60000', '--reserve', '2');
    expect(second.exitCode).toBe(0);
    expect(second.stdout).toContain('0 of 7 used in 1 min');
    expect(second.stdout).toContain('- kept from the batch lane: 2');
  });

  test('resume does not start a budget for a project that has none', async () => {
    const projectId = newProject();
    expect(await budget('resume', projectId)).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('BudgetNotFound') as string,
    });
    expect((await budget('show', projectId)).stdout).toContain('has no budget yet');
  });

  test('a budget that an order starts takes the FOLLOW_UP_BUDGET settings of the environment', async () => {
    const worker = { FOLLOW_UP_BUDGET_LIMIT: '3', FOLLOW_UP_BUDGET_WINDOW: '10s' };
    const { stdout } = await runCli(['budget', 'pause', newProject(), '--json'], { env: { ...env, ...worker } });
    expect(JSON.parse(stdout)).toMatchObject({ limit: 3, windowMs: 10_000 });
  });

  test('pause shows the end and the note of a pause, and resume ends it', async () => {
    const projectId = newProject();
    const paused = await budget('pause', projectId, '--for', '30m', '--note', 'release freeze');
    expect(paused.exitCode, paused.stderr).toBe(0);
    expect(paused.stdout).toMatch(/^paused: by an operator since \S+ \S+, until (?:\S+ )?\S+ \S+ \(release freeze\)/);
    const resumed = await budget('resume', projectId, '--json');
    expect(resumed.exitCode).toBe(0);
    expect(JSON.parse(resumed.stdout)).not.toHaveProperty('paused');
  });

  test('take counts slots as used, all or none and once per key, and the audit lists them', async () => {
    const projectId = newProject();
    await budget('set', projectId, '--limit', '5');
    const first = await budget('take', projectId, '--count', '3', '--key', 'bot', '--json');
    expect(first.exitCode, first.stderr).toBe(0);
    expect(JSON.parse(first.stdout)).toMatchObject({ projectId, key: 'bot', taken: true, count: 3 });
    expect((await budget('take', projectId, '--count', '3', '--key', 'bot', '--json')).stdout).toBe(first.stdout);
    const none = await budget('take', projectId, '--count', '3', '--key', 'other');
    expect(none.exitCode).toBe(1);
    expect(none.stdout).toMatch(/^did not take 3 slots of \S+: not enough slots are free, possible /);
    const tooMany = await budget('take', projectId, '--count', '6');
    expect(tooMany).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('count: must be at most 5') });
    await budget('set', projectId, '--limit', '2');
    expect((await budget('take', projectId, '--count', '3', '--key', 'bot', '--json')).stdout).toBe(first.stdout);
    const another = await budget('take', projectId, '--count', '2', '--key', 'bot');
    expect(another).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('count: must be 3, which the key took'),
    });
    const audit = await budget('audit', projectId, '--json');
    expect(
      audit.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual([expect.objectContaining({ workflowId: 'take/bot', sendNumber: 3, outcome: 'taken' })]);
  });

  test('a reserve that the current limit does not allow ends with exit code 2', async () => {
    const projectId = newProject();
    await budget('set', projectId, '--limit', '5');
    const { exitCode, stderr } = await budget('set', projectId, '--reserve', '5');
    expect(exitCode).toBe(2);
    expect(stderr).toContain('reserve: must be below limit (limit 5, reserve 5)');
  });
});

describe('bad arguments end with exit code 2 and one line before Temporal is contacted', () => {
  const bad: [args: string[], ...words: string[]][] = [
    [['set', 'p'], 'must set at least one of limit, window, reserve'],
    [['set', 'p', '--limit', 'many'], 'limit:', 'many'],
    [['set', 'p', '--limit', '-1', '--window', '1 fortnight', '--reserve', '1.5'], 'limit:', 'window:', 'reserve:'],
    [['set', 'p', '--limit', '5', '--reserve', '5'], 'reserve: must be below limit'],
    [['set', 'a b', '--limit', '5'], 'projectId'],
    [['set'], 'project'],
    [['pause', 'p', '--for', 'ever'], 'for:', 'ever'],
    [['pause', 'p', '--note', 'x'.repeat(201)], 'note: must be at most 200 characters'],
    [['resume', 'p', '--now'], '--now'],
    [['restore', 'p', '--in-flight', '3m'], '--in-flight'],
    [['audit', '..'], 'projectId'],
  ];
  test.each(bad)('%j', async (args, ...words) => {
    // No server listens there. A command that tried to connect would end with exit code 5.
    const { exitCode, stdout, stderr } = await runCli(['budget', ...args], {
      env: { TEMPORAL_ADDRESS: '127.0.0.1:1' },
    });
    expect({ exitCode, stdout }, stderr).toEqual({ exitCode: 2, stdout: '' });
    for (const word of words) expect(stderr).toContain(word);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });
});

test('a missing Temporal server leads to exit code 5', async () => {
  const away = { env: { TEMPORAL_ADDRESS: '127.0.0.1:1' } };
  const commands = [
    ['set', 'p', '--limit', '5'],
    ['restore', 'p'],
    ['show', 'p', '--watch'],
  ];
  const results = await Promise.all(commands.map((args) => runCli(['budget', ...args], away)));
  expect(results.map(({ exitCode }) => exitCode)).toEqual([5, 5, 5]);
});

test('the help of every budget command has an example', async () => {
  for (const command of ['show', 'set', 'pause', 'resume', 'audit', 'restore']) {
    const { exitCode, stdout } = await runCli(['budget', command, '--help']);
    expect(exitCode).toBe(0);
    expect(stdout).toContain(`$ follow-up budget ${command} my-project`);
  }
});

test('audit prints a table, and with --json one line for each send', async () => {
  const projectId = newProject();
  await send(projectId, 'job-1');
  await send(projectId, 'job-2');
  const { exitCode, stdout } = await budget('audit', projectId, '--json');
  expect(exitCode).toBe(0);
  expect(linesOf(stdout)).toMatchObject([
    { workflowId: `follow-up/${projectId}/job-2/k`, sendNumber: 1, outcome: 'sent' },
    { workflowId: `follow-up/${projectId}/job-1/k`, sendNumber: 1, outcome: 'sent' },
  ]);
  const [header, ...rows] = (await budget('audit', projectId)).stdout.trim().split('\n');
  expect(header).toMatch(/^granted +settled +outcome +send +job +workflow$/);
  expect(rows).toHaveLength(2);
  expect(rows[0]).toMatch(/^\S+Z {2}\S+Z {2}sent +1 +job-2 +follow-up\//);
  expect(rows[0]?.indexOf('follow-up/')).toBe(header?.indexOf('workflow'));
  const none = await budget('audit', newProject(), '--json');
  expect(none).toMatchObject({ exitCode: 0, stdout: '' });
});

describe('restore', () => {
  test('starts a terminated budget again, and says what that means', async () => {
    const projectId = newProject();
    await send(projectId, 'job-1');
    await terminate(projectId);
    const shown = await budget('show', projectId);
    expect(shown.stdout).toContain(`follow-up budget restore ${projectId}`);
    const ordered = await budget('set', projectId, '--limit', '5', '--json');
    expect(ordered.exitCode).toBe(1);
    expect(JSON.parse(ordered.stdout)).toMatchObject({ error: { type: 'BudgetStopped' } });

    const restored = await budget('restore', projectId);
    expect(restored.exitCode, restored.stderr).toBe(0);
    expect(restored.stdout).toContain(`the budget of ${projectId} runs again; its last run ended`);
    expect(restored.stdout).toContain('it first counts what was sent before');
    await eventually('it has counted the send', async () =>
      (await budget('show', projectId)).stdout.includes('1 of 100 used'),
    );
    const again = await budget('restore', projectId, '--json');
    expect(again.exitCode).toBe(2);
    expect(JSON.parse(again.stdout)).toMatchObject({ error: { type: 'BudgetRunning' } });
  });

  test('--assume-full starts it with its limit, and every slot used', async () => {
    const projectId = newProject();
    await budget('set', projectId, '--limit', '4', '--window', '1h');
    await terminate(projectId);
    const restored = await budget('restore', projectId, '--assume-full', '--json');
    expect(restored.exitCode, restored.stderr).toBe(0);
    const settings = { limit: 4, windowMs: 3_600_000 };
    expect(JSON.parse(restored.stdout)).toMatchObject({ projectId, settings, stopped: { status: 'terminated' } });
    expect((await budget('show', projectId)).stdout).toContain('4 of 4 used in 1 h');
  });

  test('ends with exit code 2 if there was never a budget', async () => {
    const { exitCode, stdout } = await budget('restore', newProject(), '--json');
    expect(exitCode).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject({ error: { type: 'BudgetNotFound' } });
  });
});

describe('show --watch', () => {
  test('prints one line for each change, and ends with exit code 130 at Ctrl-C', { tags: 'long' }, async () => {
    const projectId = newProject();
    const run = openCli(['budget', 'show', projectId, '--watch'], { env });
    await eventually('it says that there is none', () => run.stdout().includes('has no budget yet'));
    await send(projectId, 'job-1');
    await eventually('it shows the send', () => run.stdout().includes('1 of 100 slots used'));
    await budget('pause', projectId, '--note', 'stop');
    await eventually('it shows the pause', () =>
      /paused: by an operator since \S+ \S+, until it is resumed \(stop\)/.test(run.stdout()),
    );
    run.kill('SIGINT');
    const { exitCode, stdout, stderr } = await run.ended;
    expect({ exitCode, stderr }).toEqual({ exitCode: 130, stderr: '' });
    const lines = stdout.trim().split('\n');
    expect(new Set(lines).size).toBe(lines.length);
  });

  test('prints one document for each change with --json', async () => {
    const projectId = newProject();
    const run = openCli(['budget', 'show', projectId, '--watch', '--json'], { env });
    await eventually('it has begun', () => run.stdout().includes('\n'));
    await budget('set', projectId, '--limit', '7');
    await eventually('it shows the change', () => run.stdout().includes('"limit":7'));
    run.kill('SIGTERM');
    const { exitCode, stdout } = await run.ended;
    expect(exitCode).toBe(130);
    const documents = linesOf(stdout);
    expect(documents[0]).toEqual({ projectId, state: 'none' });
    expect(documents.at(-1)).toMatchObject({ projectId, state: 'running', status: { limit: 7 } });
  });
});

describe('the text of a budget', () => {
  const now = new Date('2026-01-02T03:04:05Z');
  const soon = new Date(now.getTime() + 90_000).toISOString();
  const status: BudgetStatus = {
    projectId: 'p',
    limit: 4,
    windowMs: 3_600_000,
    reserve: 1,
    used: 6,
    unsettled: 2,
    remembersSince: now.toISOString(),
    nextFreeSlotAt: soon,
    paused: { reasons: ['operator', 'limited'], since: now.toISOString(), until: soon, note: 'freeze\u001b[2J' },
    waiting: [
      { workflowId: 'follow-up/p/a/k', lane: 'batch', position: 1, expectedAt: soon },
      { workflowId: 'follow-up/p/b/k', lane: 'interactive', position: 2, refusal: { reason: 'payment', until: soon } },
    ],
    waitingTotal: 3,
    waitingInBatchLane: 0,
    waitingForJob: 1,
    lastSends: [{ workflowId: 'follow-up/p/c/k', sendNumber: 1, grantedAt: now.toISOString(), outcome: 'sent' }],
  };

  test('shows slots, pause, queue and sends, with local times and without marks', () => {
    const lines = describeBudgetUpdate('p', { state: 'running', status }, now).split('\n');
    expect(lines[0]).toMatch(
      /^paused: by an operator, and the service refuses .* since \d\S+ [+-]\S+, until \d\S+ [+-]\S+ \(freeze\)$/,
    );
    expect(lines).toContain('- slots: 6 of 4 used in 1 h');
    expect(lines).toContain('- waiting: 3, 0 of them in the batch lane, 1 for their job');
    expect(lines.join('\n')).toMatch(/^- position 1: follow-up\/p\/a\/k, batch lane, expected \d\S+ [+-]\S+$/m);
    expect(lines.join('\n')).toMatch(
      /^- position 2: follow-up\/p\/b\/k, interactive lane, the service asks for payment \(402\), tries again \S+ \S+$/m,
    );
    expect(lines.at(-1)).toMatch(/: delivered, follow-up\/p\/c\/k$/);
  });

  test('that is stopped or does not answer says so above its last known state', () => {
    const lines = describeBudgetUpdate('p', { state: 'stopped', status, statusUnavailable: 'no worker runs' }, now);
    expect(lines.split('\n')[0]).toContain('follow-up budget restore p');
    expect(lines.split('\n')[1]).toBe('no answer: no worker runs; last known:');
    expect(summariseBudgetUpdate('p', { state: 'running', statusUnavailable: 'no worker runs' })).toBe(
      'no answer: no worker runs',
    );
    expect(summariseBudgetUpdate('p', { state: 'stopped', status })).toMatch(/^STOPPED: .*, 6 of 4 slots used/);
  });

  test('in one line says why it is paused', () => {
    const untilLater = new Date(Date.now() + 90_000).toISOString();
    const paused = { reasons: ['limited' as const], since: now.toISOString(), until: untilLater };
    const line = summariseBudgetUpdate('p', { state: 'running', status: { ...status, paused } });
    expect(line).toMatch(/slots used, paused: the service refuses more messages \(429\) since \S+ .*, tries again /);
  });

  test('fits the width and the height of its terminal', () => {
    const lines = ['short', 'x'.repeat(30), 'three', 'four', 'five'];
    expect(fitFrame(lines, 20, 10)).toEqual(['short', `${'x'.repeat(19)}…`, 'three', 'four', 'five']);
    expect(fitFrame(lines, 80, 4)).toEqual(['short', 'x'.repeat(30), '… 3 more lines']);
  });
});
