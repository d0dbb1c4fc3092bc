import { type Client, WorkflowFailedError } from '@temporalio/client';
import {
  ApplicationFailure,
  defaultPayloadConverter,
  TerminatedFailure,
  WorkflowNotFoundError,
} from '@temporalio/common';
import { beforeEach, describe, expect, test } from 'vitest';
import { newItem } from '../../src/batch/outcome.js';
import { hashOfItem } from '../../src/batch/pack.js';
import { type PlannedBatch, planRetry, type PlanRetryOptions } from '../../src/client/batch-retry.js';
import {
  type BatchItem,
  type BatchStatus,
  type Delivered,
  followUpBatchWorkflowId,
  type ItemOutcome,
  SearchAttribute,
} from '../../src/contract/index.js';

/** What a batch recorded of an item. */
interface Recorded extends ItemOutcome {
  /** What Temporal keeps of the item's follow-up, which failed after its message was delivered. Default: nothing. */
  kept?: 'running' | 'failed' | 'terminated';
}

interface Execution {
  status: string;
  memo?: Record<string, unknown>;
  batchId?: string;
  input?: unknown;
}

const COMPLETED: Recorded = { status: 'completed', prLink: null };
const JOB_FAILED: Recorded = { status: 'failed', prLink: null };
const ended = (delivered: Delivered): Recorded => ({ error: { type: 'Other', message: 'it ended', delivered } });

let executions: Map<string, Execution>;
let batches: Map<string, PlannedBatch>;
beforeEach(() => {
  executions = new Map();
  batches = new Map();
});

/** An ended batch `nightly` with an item for each outcome; each is sent to another job, unless `jobIds` says so. */
function addBatch(outcomes: Recorded[], more: { jobIds?: string[]; total?: number; maxOpen?: number } = {}): void {
  const items = outcomes.map((_, index) => inputOf(more.jobIds?.[index] ?? `job-${index}`));
  add('nightly', items, outcomes, { status: 'COMPLETED' }, more);
}

const inputOf = (jobId: string) => ({ projectId: 'project', jobId, prompt: 'Add tests.' });

/** Its first retry, which sent the items at `indexes` again, with an outcome for each job. */
function addRetry(
  indexes: string,
  outcomes: Record<string, Recorded>,
  more: { status?: string; sealed?: boolean } = {},
) {
  const { status = 'COMPLETED', sealed = true } = more;
  const execution = { status, memo: { retryOf: 'nightly', indexes } };
  add('nightly-retry-1', Object.keys(outcomes).map(inputOf), Object.values(outcomes), execution, { sealed });
}

function add(
  batchId: string,
  items: object[],
  outcomes: Recorded[],
  execution: Execution,
  { total = items.length, ...options }: Partial<BatchStatus>,
): void {
  executions.set(followUpBatchWorkflowId({ batchId }), execution);
  const template = { lane: 'batch' };
  for (const [first, item] of items.entries()) {
    executions.set(`part ${first} of ${batchId}`, { status: 'COMPLETED', input: { first, template, items: [item] } });
  }
  const list = items.map((item, index): BatchItem => {
    const { kept, ...outcome } = outcomes[index] ?? {};
    const listed = newItem(batchId, index, item);
    const memo = { itemHash: hashOfItem({ ...template, ...item }) };
    if (kept) executions.set(listed.workflowId, { status: kept.toUpperCase(), batchId, memo });
    return { ...listed, ...outcome };
  });
  batches.set(batchId, {
    status: async () => ({ maxOpen: 50, ...options, total }) as BatchStatus,
    parts: async () => [...items.keys()].map((first) => `part ${first} of ${batchId}`),
    async *list() {
      yield* list;
    },
  });
}

function fakeClient(): Client {
  const find = (workflowId: string): Execution => {
    const found = executions.get(workflowId);
    if (!found) throw new WorkflowNotFoundError('not found', workflowId, undefined);
    return found;
  };
  const getHandle = (workflowId: string) => ({
    async describe() {
      const { status, memo, batchId } = find(workflowId);
      const get = ({ name }: { name: string }) => (name === SearchAttribute.batchId.name ? batchId : undefined);
      return { status: { name: status }, memo, typedSearchAttributes: { get } };
    },
    async result() {
      const wasTerminated = find(workflowId).status === 'TERMINATED';
      const failure = ApplicationFailure.create({ type: 'JobTimeout', details: [{ delivered: 'yes' }] });
      throw new WorkflowFailedError('', wasTerminated ? new TerminatedFailure('terminated') : failure, undefined);
    },
  });
  const getWorkflowExecutionHistory = async ({ execution }: { execution: { workflowId: string } }) => {
    const payloads = [defaultPayloadConverter.toPayload(find(execution.workflowId).input)];
    return { history: { events: [{ workflowExecutionStartedEventAttributes: { input: { payloads } } }] } };
  };
  const client = {
    options: {
      namespace: 'default',
      loadedDataConverter: { payloadCodecs: [], payloadConverter: defaultPayloadConverter },
    },
    withDeadline: (_deadline: number, call: () => unknown) => call(),
    workflow: { getHandle },
    workflowService: { getWorkflowExecutionHistory },
  };
  return client as unknown as Client;
}

/** Plans the retry of a batch, and shows the jobs of its items instead of its input. */
async function plan(options: PlanRetryOptions = {}, asked = 'nightly') {
  const { input, ...counts } = await planRetry(fakeClient(), (id) => batches.get(id)!, asked, options);
  return { id: input.id, jobIds: input.items.map(({ jobId }) => jobId), ...counts };
}

describe('a plan', () => {
  test('sends what failed or is in doubt, and counts what is delivered or still runs', async () => {
    const open: Recorded = { kept: 'running' };
    addBatch([COMPLETED, JOB_FAILED, ended('no'), ended('unknown'), ended('yes'), open]);
    expect(await plan()).toEqual({
      ...{ id: 'nightly-retry-1', retryOf: 'nightly', jobIds: ['job-1', 'job-2', 'job-3'], indexes: '1-3' },
      ...{ unknown: 1, delivered: 2, open: 1, neverStarted: 0 },
    });
    expect(await plan({ only: 'failed' })).toMatchObject({ jobIds: ['job-1', 'job-2'], indexes: '1-2', unknown: 0 });
    expect(await plan({ only: 'unknown' })).toMatchObject({ jobIds: ['job-3'], indexes: '3', unknown: 1 });
  });

  test('has the whole input of each item, and the options of the batch', async () => {
    addBatch([ended('no')], { maxOpen: 7 });
    const { input } = await planRetry(fakeClient(), (id) => batches.get(id)!, 'nightly', {});
    expect(input).toEqual({ id: 'nightly-retry-1', maxOpen: 7, items: [{ ...inputOf('job-0'), lane: 'batch' }] });
  });

  test('leaves out an item with an invalid input, which would fail again', async () => {
    addBatch([ended('no'), ended('no')], { jobIds: ['not a job', 'job-1'] });
    expect(await plan()).toMatchObject({ jobIds: ['job-1'], indexes: '1', delivered: 0 });
  });

  test('counts the items that no part of the batch has', async () => {
    addBatch([ended('no')], { total: 4 });
    expect(await plan()).toMatchObject({ jobIds: ['job-0'], neverStarted: 3 });
  });

  test('believes Temporal rather than the record of the batch', async () => {
    addBatch([
      { ...ended('unknown'), kept: 'failed' },
      { ...ended('no'), kept: 'terminated' },
      { ...ended('unknown'), kept: 'running' },
      { kept: 'terminated' },
    ]);
    expect(await plan()).toMatchObject({ jobIds: ['job-1', 'job-3'], unknown: 2, delivered: 1, open: 1 });
  });

  test('sends an item that the batch had yet to start when it was cut off', async () => {
    addBatch([{}]);
    expect(await plan()).toMatchObject({ jobIds: ['job-0'], unknown: 0, open: 0 });
  });

  test('is refused if the batch runs, if it does not exist, or if a part of it is gone', async () => {
    await expect(plan()).rejects.toMatchObject({ type: 'BatchNotFound', id: 'nightly' });
    addBatch([ended('no')]);
    executions.delete('part 0 of nightly');
    await expect(plan()).rejects.toMatchObject({ type: 'BatchPartNotFound', id: 'nightly' });
    executions.set('follow-up-batch/nightly', { status: 'RUNNING' });
    await expect(plan()).rejects.toMatchObject({ type: 'BatchRunning', id: 'nightly' });
  });

  test('rejects with the reason of its signal', async () => {
    addBatch([ended('no')]);
    await expect(plan({ signal: AbortSignal.abort(new Error('called off')) })).rejects.toThrow('called off');
  });
});

describe('the plan after a retry', () => {
  test('sends what the retry did not send or deliver, as the next retry of the batch', async () => {
    addBatch(Array<Recorded>(10).fill(ended('no')));
    const rest = { 'job-4': COMPLETED, 'job-5': COMPLETED, 'job-6': COMPLETED, 'job-9': COMPLETED };
    addRetry('0,4-6,9', { 'job-0': JOB_FAILED, ...rest });
    const next = { id: 'nightly-retry-2', retryOf: 'nightly', indexes: '0-3,7-8', delivered: 4 };
    expect(await plan()).toMatchObject(next);
    expect(await plan({}, 'nightly-retry-1')).toMatchObject(next);
  });

  test('tells identical items apart', async () => {
    addBatch([ended('unknown'), ended('no')], { jobIds: ['same', 'same'] });
    addRetry('1', { same: COMPLETED });
    expect(await plan()).toMatchObject({ jobIds: ['same'], indexes: '0', unknown: 1, delivered: 1 });
  });

  test('sends an item in doubt only as unknown, even if a later attempt was provably not delivered', async () => {
    addBatch([ended('unknown')]);
    addRetry('0', { 'job-0': ended('no') });
    expect(await plan()).toMatchObject({ indexes: '0', unknown: 1 });
    expect(await plan({ only: 'failed' })).toMatchObject({ jobIds: [], unknown: 0 });
  });

  test('sends an item in doubt as failed if the job failed after the retry', async () => {
    addBatch([ended('unknown')]);
    addRetry('0', { 'job-0': JOB_FAILED });
    expect(await plan({ only: 'failed' })).toMatchObject({ indexes: '0', unknown: 0 });
  });

  test('leaves out what the first attempt delivered after its record', async () => {
    addBatch([{ ...ended('no'), kept: 'failed' }]);
    addRetry('0', { 'job-0': ended('no') });
    expect(await plan()).toMatchObject({ jobIds: [], delivered: 1 });
  });

  test('leaves out what the retry has yet to start while it runs, and sends it if the retry was cut off', async () => {
    addBatch([ended('no'), ended('no')]);
    addRetry('0', { 'job-0': {} }, { status: 'RUNNING' });
    expect(await plan()).toMatchObject({ id: 'nightly-retry-2', jobIds: ['job-1'], open: 1 });
    addRetry('0', { 'job-0': {} }, { status: 'TERMINATED', sealed: false });
    expect(await plan()).toMatchObject({ id: 'nightly-retry-2', jobIds: ['job-0', 'job-1'], open: 0 });
  });

  test('is the plan of the retry itself while its items are still being added', async () => {
    addBatch([ended('no'), ended('no')]);
    const before = await plan();
    addRetry('0-1', { 'job-0': { kept: 'running' } }, { status: 'RUNNING', sealed: false });
    expect(await plan()).toEqual(before);
  });

  test('ignores another batch with the id of a retry', async () => {
    addBatch([ended('no')]);
    add('nightly-retry-1', [inputOf('job-0')], [COMPLETED], { status: 'COMPLETED' }, {});
    expect(await plan()).toMatchObject({ id: 'nightly-retry-2', jobIds: ['job-0'] });
  });
});
