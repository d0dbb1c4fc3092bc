import { randomUUID } from 'node:crypto';
import type { Client, WorkflowHandle } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject } from 'vitest';
import { queryOf } from '../../support/contradictions.js';
import {
  budgetTaskQueue,
  type FollowUpInput,
  type FollowUpResult,
  projectBudgetWorkflowId,
  SearchAttribute,
} from '../../../src/contract/index.js';
import { defineQuery } from '../../../src/contract/names.js';
import { type BudgetStatus, pauseUpdate, resumeUpdate, setLimitUpdate } from '../../../src/contract/budget.js';
import type { FollowUpProgress as Progress } from '../../../src/contract/follow-up.js';
import type { LedgerEntry, MessageStep, NewJob } from '../../../src/simulator/index.js';
import { GrpcStatus, grpcStatusOf } from '../../../src/temporal/grpc.js';
import { eventually } from '../../support/eventually.js';
import { type Core, type CoreOptions, FAST, startCore } from './core-rig.js';

export type FollowUpHandle = WorkflowHandle & { jobId: string };
type History = Partial<Awaited<ReturnType<WorkflowHandle['fetchHistory']>>>;

const progressQuery = defineQuery<Progress>('progress');

/**
 * The new core for the tests of a file: call it at the file's top level. After all tests it expects that no workflow
 * task failed in any of their workflows.
 */
export function operatedCore(options: Omit<CoreOptions, 'address' | 'onMessage'> = {}) {
  let core: Core;
  /** Messages that are held, by job and step. */
  const held = new Map<string, Promise<void>>();
  const nameOf = (projectId: string, jobId: string, step: MessageStep) => `${projectId}/${jobId} ${step}`;
  beforeAll(async () => {
    const address = inject('temporalAddress');
    const onMessage = ({ projectId, jobId, step }: { projectId: string; jobId: string; step: MessageStep }) =>
      held.get(nameOf(projectId, jobId, step));
    core = await startCore({ address, ...options, onMessage });
  });
  afterAll(async () => {
    try {
      expect(await failedTasks(core.client, core.taskQueue)).toEqual([]);
    } finally {
      await core.stop();
    }
  });
  /** Holds the messages to a job at a step. Returns what lets them go on. */
  const hold = (projectId: string, jobId: string, step: MessageStep): (() => void) => {
    const name = nameOf(projectId, jobId, step);
    let letGo = (): void => undefined;
    held.set(name, new Promise((resolve) => (letGo = resolve)));
    return () => {
      held.delete(name);
      letGo();
    };
  };
  return {
    /** Set once the tests run. */
    get core() {
      return core;
    },
    newProject: () => new Project(core, hold),
  };
}

/** A project of one test. */
export class Project {
  readonly id = `core-${randomUUID().slice(0, 8)}`;
  readonly #jobs = new Set<string>();

  constructor(
    readonly core: Core,
    private readonly hold: (projectId: string, jobId: string, step: MessageStep) => () => void,
  ) {}

  /** Every message that arrived. */
  get ledger(): LedgerEntry[] {
    return this.core.simulator.ledger.filter(({ projectId }) => projectId === this.id);
  }

  /** The jobs that took messages, in their order. */
  get delivered(): string[] {
    return this.ledger.filter(({ accepted }) => accepted).map(({ jobId }) => jobId);
  }

  addJob(jobId: string, more: Partial<NewJob> = {}): void {
    this.#jobs.add(jobId);
    this.core.simulator.addJob({ projectId: this.id, jobId, ...more });
  }

  /** Makes a job whose turns last until {@link endTurn}. */
  addEndlessJob(jobId: string): void {
    this.addJob(jobId, { behaviour: { neverEnds: true } });
  }

  endTurn(jobId: string): void {
    const prLink = `https://github.com/example/${jobId}/pull/${randomUUID()}`;
    this.core.simulator.changeJob({ projectId: this.id, jobId, status: 'completed', prLink });
  }

  /** Holds the messages to a job at a step. Returns what lets them go on. */
  holdMessages(jobId: string, step: MessageStep): () => void {
    return this.hold(this.id, jobId, step);
  }

  /** Starts a follow-up of a new key, to a new job if the project has no such one. */
  async start(jobId = 'job', more: Partial<FollowUpInput> & Record<string, unknown> = {}): Promise<FollowUpHandle> {
    if (!this.#jobs.has(jobId)) this.addJob(jobId);
    const handle = await this.core.start({ projectId: this.id, jobId, ...FAST, ...more });
    // Not bound to the first run: a reset makes another.
    return this.followUp(handle.workflowId);
  }

  /** A follow-up's newest run, whichever that is. */
  followUp(workflowId: string): FollowUpHandle {
    return Object.assign(this.core.client.workflow.getHandle(workflowId), { jobId: workflowId.split('/')[2] ?? '' });
  }

  /** Starts follow-ups to as many new jobs. */
  startMany(count: number, name = 'job', more: Partial<FollowUpInput> = {}): Promise<FollowUpHandle[]> {
    return Promise.all(Array.from({ length: count }, (_, index) => this.start(`${name}-${index}`, more)));
  }

  get budget(): WorkflowHandle {
    return this.core.budget(this.id);
  }

  get budgetInput() {
    return { projectId: this.id, settings: this.core.settings };
  }

  /** Starts the project's budget by hand, with settings of its own. */
  async openBudget(settings: Partial<Core['settings']> = {}, ...more: unknown[]): Promise<void> {
    const input = { ...this.budgetInput, settings: { ...this.core.settings, ...settings } };
    await this.core.client.workflow.start('projectBudget', {
      workflowId: projectBudgetWorkflowId(this.id),
      taskQueue: budgetTaskQueue(this.core.taskQueue),
      args: [input, ...more],
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
    });
    await eventually('the budget has counted', async () => !(await this.status()).isCounting);
  }

  status(): Promise<BudgetStatus> {
    return this.core.status(this.id);
  }

  pause(): Promise<BudgetStatus> {
    return this.budget.executeUpdate(pauseUpdate, { args: [{}] });
  }

  resume(): Promise<BudgetStatus> {
    return this.budget.executeUpdate(resumeUpdate);
  }

  setLimit(input: { limit?: number; window?: string; reserve?: number }): Promise<BudgetStatus> {
    return this.budget.executeUpdate(setLimitUpdate, { args: [input] });
  }

  async waiting(count: number): Promise<void> {
    await eventually(`${count} wait`, async () => (await this.status()).waitingTotal === count);
  }

  async deliveries(count: number): Promise<void> {
    await eventually(`${count} are delivered`, () => this.delivered.length === count);
  }

  /** Opens a budget that lets nothing through, with follow-ups in line. */
  async openBacklog(count: number, settings: Partial<Core['settings']> = {}): Promise<FollowUpHandle[]> {
    await this.openBudget(settings);
    await this.pause();
    const followUps = await this.startMany(count);
    await this.waiting(count);
    return followUps;
  }

  /** Expects that all complete, each delivered once, and that no window held more messages than the limit. */
  async expectGoodEnds(
    followUps: readonly FollowUpHandle[],
    { limit, windowMs }: { limit: number; windowMs: number } = this.core.settings,
  ): Promise<FollowUpResult[]> {
    const results = await Promise.all(followUps.map((each) => each.result() as Promise<FollowUpResult>));
    expect(results.map(({ status }) => status)).toEqual(results.map(() => 'completed'));
    expect([...this.delivered].sort()).toEqual(followUps.map(({ jobId }) => jobId).sort());
    expect(this.core.simulator.maxInAnyWindow(this.id, windowMs)).toBeLessThanOrEqual(limit);
    return results;
  }
}

export const progressOf = (followUp: WorkflowHandle): Promise<Progress> => followUp.query(progressQuery);

/** Waits until a follow-up is in a state, and for a reason if one is given. */
export async function reaches(followUp: WorkflowHandle, state: string, waitReason?: string): Promise<Progress> {
  return eventually(`${followUp.workflowId} is ${state} ${waitReason ?? ''}`, async () => {
    const progress = await progressOf(followUp);
    const isReached = progress.state === state && (waitReason === undefined || progress.waitReason === waitReason);
    if (!isReached) throw new Error(`it is ${JSON.stringify(progress)}`);
    return progress;
  });
}

/** The search attribute `FollowUpState`. */
export async function shownState(followUp: WorkflowHandle): Promise<string | undefined> {
  return (await followUp.describe()).typedSearchAttributes.get(SearchAttribute.state);
}

/** Values of the API's `WorkflowTaskFailedCause`: the workflow's code threw, or contradicts its history. */
const OWN_FAULTS = [14, 24];

/** Failed tasks of all workflows of a task queue and its budgets whose cause is the workflow's own code. */
async function failedTasks(client: Client, taskQueue: string): Promise<string[]> {
  const failed: string[] = [];
  for await (const { workflowId, runId } of client.workflow.list({ query: queryOf(taskQueue) })) {
    const { events } = await client.workflow
      .getHandle(workflowId, runId)
      .fetchHistory()
      .catch((error: unknown): History => {
        // It was deleted.
        if (grpcStatusOf(error) === GrpcStatus.NOT_FOUND) return {};
        throw error;
      });
    for (const { eventId, workflowTaskFailedEventAttributes: failure } of events ?? []) {
      if (!failure || !OWN_FAULTS.includes(Number(failure.cause))) continue;
      failed.push(`${workflowId}, event ${String(eventId)}: ${failure.failure?.message ?? 'no message'}`);
    }
  }
  return failed;
}
