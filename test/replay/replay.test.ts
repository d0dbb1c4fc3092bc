import { Worker } from '@temporalio/worker';
import { expect, test } from 'vitest';
import { recordedHistories } from '../support/histories.js';
import { workflowBundle } from '../support/workflow-rig.js';

const histories = recordedHistories();

async function replay(code: string, which = histories): Promise<string[]> {
  const problems: string[] = [];
  const results = Worker.runReplayHistories(
    { workflowBundle: { code } },
    which.map(({ workflowId, history }) => ({ workflowId, history })),
  );
  for await (const { workflowId, error } of results) if (error) problems.push(`${workflowId}: ${error.message}`);
  return problems;
}

test('there are histories of every way that a follow-up can go, and of budgets', () => {
  const names = histories.map(({ name }) => name).join('\n');
  for (const path of ['sends once', 'JobTimeout', 'Canceled', 'inferred', 'sent again', 'continues as new', 'budget']) {
    expect(names).toContain(path);
  }
});

test('every recorded history replays with the code of today', async () => {
  expect(await replay(workflowBundle().code)).toEqual([]);
});

test('a change that is not deterministic is found out', async () => {
  const { code } = workflowBundle();
  const edited = code.replaceAll('sendFollowUp.executeWithOptions', 'getJob.executeWithOptions');
  expect(edited).not.toBe(code);
  const sent = histories.filter(({ name }) => name.includes('sends once'));
  expect((await replay(edited, sent)).length).toBeGreaterThan(0);
});
