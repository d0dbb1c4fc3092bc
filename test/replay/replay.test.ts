import { readFileSync } from 'node:fs';
import { Worker } from '@temporalio/worker';
import { beforeAll, describe, expect, test } from 'vitest';
import { FailureType } from '../../src/contract/index.js';
import { recordedHistories } from '../support/histories.js';
import { builtBundle } from '../support/workflow-bundles.js';
import { installQuietRuntime } from '../support/workflow-rig.js';
import { breakingEdits, harmlessEdits, type BundleEdit } from './edits.js';
import { pathOf } from './paths.js';

const histories = recordedHistories().map((recorded) => ({ ...recorded, path: pathOf(recorded.history) }));
const code = readFileSync(builtBundle.codePath, 'utf8');

beforeAll(installQuietRuntime);

/** The shortest history of each path. */
const different = [
  ...new Map(
    histories
      .toSorted((a, b) => b.path.length - a.path.length)
      .map((recorded) => [recorded.path.signature, recorded] as const),
  ).values(),
].toReversed();

/** The histories that do not replay, up to `most` of them. */
async function replay(bundle: string, which: typeof histories, most = Infinity): Promise<string[]> {
  const problems: string[] = [];
  const results = Worker.runReplayHistories(
    { workflowBundle: { code: bundle } },
    which.map(({ workflowId, history }) => ({ workflowId, history })),
  );
  for await (const { workflowId, error } of results) {
    if (error) problems.push(`${workflowId}: ${error.message}`);
    if (problems.length >= most) break;
  }
  return problems;
}

function edit(bundle: string, { from, to }: BundleEdit): string {
  const edited = bundle.replaceAll(from, to);
  expect(edited).not.toBe(bundle);
  return edited;
}

const stepsOf = (workflowType: string) =>
  new Set(histories.flatMap(({ path }) => (path.workflowType === workflowType ? [...path.steps] : [])));

describe('there are histories', () => {
  test('of at least 60 different paths, without counting repeated loops', () => {
    expect(different.length).toBeGreaterThanOrEqual(60);
  });

  test('of every end of a follow-up', () => {
    const ends = new Set(histories.filter(({ path }) => path.workflowType === 'followUp').map(({ path }) => path.end));
    for (const type of Object.values(FailureType)) expect(ends).toContain(`WORKFLOW_EXECUTION_FAILED(${type})`);
    for (const end of ['COMPLETED', 'CANCELED', 'CONTINUED_AS_NEW(followUp)']) {
      expect(ends).toContain(`WORKFLOW_EXECUTION_${end}`);
    }
  });

  test('of every signal and update, and of runs that were reset, continued and restored', () => {
    const signals = (...names: string[]) => names.map((name) => `WORKFLOW_EXECUTION_SIGNALED(${name})`);
    const updates = (...names: string[]) => names.map((name) => `WORKFLOW_EXECUTION_UPDATE_ACCEPTED(${name})`);
    const expected: Record<string, string[]> = {
      followUp: [
        ...signals('wake', 'stillThere', 'pollNow'),
        ...updates('resolveDelivery'),
        'WORKFLOW_EXECUTION_CANCEL_REQUESTED',
        'WORKFLOW_TASK_FAILED(failure WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW)',
        // A local activity that timed out.
        'MARKER_RECORDED(failure)',
        'WORKFLOW_EXECUTION_STARTED(followUp continued)',
      ],
      projectBudget: [
        ...signals('report'),
        ...updates('acquire', 'setLimit', 'pause', 'resume'),
        'SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED(stillThere)',
        'WORKFLOW_EXECUTION_FAILED(InvalidInput)',
        'WORKFLOW_EXECUTION_STARTED(projectBudget continued)',
      ],
      followUpBatch: [
        ...signals('partReport'),
        ...updates('addItems', 'seal'),
        'WORKFLOW_EXECUTION_CANCEL_REQUESTED',
        'WORKFLOW_EXECUTION_FAILED(InvalidInput)',
        'CHILD_WORKFLOW_EXECUTION_TERMINATED(followUpBatchPart)',
        'WORKFLOW_EXECUTION_STARTED(followUpBatch continued)',
      ],
      followUpBatchPart: [
        ...signals('partOrder', 'followUpEnded'),
        'CHILD_WORKFLOW_EXECUTION_TERMINATED(followUp)',
        'WORKFLOW_EXECUTION_STARTED(followUpBatchPart continued)',
      ],
    };
    for (const [workflowType, steps] of Object.entries(expected)) {
      expect([...stepsOf(workflowType)]).toEqual(expect.arrayContaining(steps));
    }
    const names = histories.map(({ name }) => name).join('\n');
    for (const path of [
      'queue is full',
      'budget is stopped',
      'budget that was restored',
      'budget that is taken for full',
      'schedule started',
    ]) {
      expect(names).toContain(path);
    }
  });
});

test('every recorded history replays with the current code', async () => {
  expect(await replay(code, histories)).toEqual([]);
});

describe('an edit of the workflows', () => {
  test.each(breakingEdits)('breaks the replay: $what', async (breaking) => {
    const histories = different.filter(({ path }) => path.workflowType === breaking.in);
    expect(await replay(edit(code, breaking), histories, 1)).toHaveLength(1);
  });

  test('does not break the replay if it is harmless', async () => {
    expect(await replay(harmlessEdits.reduce(edit, code), different)).toEqual([]);
  });
});
