import { expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { useStack } from '../support/project.js';
import { sumOf } from '../worker/prometheus.js';

const tested = useStack({ env: { FOLLOW_UP_BUDGET_LIMIT: '100', FOLLOW_UP_MARGIN: '200ms' } });

test('the metrics match the budget after sends, in a pause and after a 429', async () => {
  const project = tested.newProject();
  const metric = async (name: string, labels = {}) => {
    const text = await (await fetch(`${tested.stack.statusUrl}/metrics`)).text();
    return sumOf(text, `follow_up_budget_${name}`, { project: project.id, ...labels });
  };
  const isPaused = (reason: string) => metric('paused', { reason });
  await Promise.all((await project.startMany(2)).map((followUp) => followUp.result()));
  await eventually(
    'both have an outcome',
    async () => (await metric('grants_total')) === 2 && !(await metric('under_way')),
  );
  const now = { limit: 100, window_seconds: 3_600, used: 2, waiting: 0, limited_total: 0, paused: 0 };
  for (const [name, value] of Object.entries(now)) expect(await metric(name), name).toBe(value);
  expect((await metric('reported_timestamp_seconds')) * 1_000).toBeGreaterThan(Date.now() - 600_000);

  await project.budget.pause({ note: 'maintenance' });
  const held = await project.start('held');
  await eventually('it waits', async () => (await isPaused('operator')) === 1 && (await metric('waiting')) === 1);
  const how = { status: 429, headers: { 'retry-after': '3' } };
  tested.stack.simulator.failNext({ method: 'POST', projectId: project.id, how });
  await project.budget.resume();
  await eventually('the 429 pauses the project', async () => {
    return (await isPaused('limited')) === 1 && (await metric('limited_total')) === 1;
  });
  expect(await isPaused('operator')).toBe(0);
  await held.result();
  await eventually('the pause is over', async () => (await isPaused('limited')) === 0);
  expect(await metric('grants_total')).toBe(4);
  expect(await metric('limited_total')).toBe(1);
});
