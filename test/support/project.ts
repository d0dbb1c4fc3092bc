import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, beforeAll, expect, inject } from 'vitest';
import type { FollowUpHandle, LiveProgress, StartedFollowUp, StartInput } from '../../src/client/index.js';
import { type FollowUpResult, projectBudgetWorkflowId } from '../../src/contract/index.js';
import type { LedgerEntry, MessageStep, NewJob } from '../../src/simulator/index.js';
import { contradictions } from './contradictions.js';
import { eventually } from './eventually.js';
import { FAST, type Stack, type StackOptions, startStack } from './stack.js';

/** Holds messages to a job at a step. Returns what lets them go on. */
type Hold = (projectId: string, jobId: string, step: MessageStep) => () => void;

/**
 * One stack for the tests of a file: call it at the file's top level. After all tests it expects that no workflow task
 * failed in any of their workflows.
 */
export function useStack(options: Omit<StackOptions, 'address' | 'hooks'> = {}) {
  let stack: Stack;
  const held = new Map<string, Promise<void>>();
  const nameOf = (projectId: string, jobId: string, step: MessageStep) => `${projectId}/${jobId} ${step}`;
  beforeAll(async () => {
    stack = await startStack({
      address: inject('temporalAddress'),
      ...options,
      hooks: { onMessage: ({ projectId, jobId, step }) => held.get(nameOf(projectId, jobId, step)) },
    });
  });
  afterAll(async () => {
    try {
      expect(await contradictions(stack.client, stack.taskQueue)).toEqual([]);
    } finally {
      await stack.stop();
    }
  });
  const hold: Hold = (projectId, jobId, step) => {
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
    get stack() {
      return stack;
    },
    newProject: (id?: string) => new Project(stack, hold, id),
  };
}

/** A project of one test. */
export class Project {
  constructor(
    readonly stack: Stack,
    private readonly hold: Hold,
    readonly id = `p-${randomUUID().slice(0, 8)}`,
  ) {}

  /** Every message that arrived. */
  get ledger(): LedgerEntry[] {
    return this.stack.simulator.ledger.filter(({ projectId }) => projectId === this.id);
  }

  /** The jobs that took messages, in their order. */
  get delivered(): string[] {
    return this.ledger.filter(({ accepted }) => accepted).map(({ jobId }) => jobId);
  }

  addJob(jobId = 'job', more: Partial<NewJob> = {}): void {
    this.stack.simulator.addJob({ projectId: this.id, jobId, ...more });
  }

  /** Makes a job whose turns last until {@link endTurn}. */
  addEndlessJob(jobId = 'job'): void {
    this.addJob(jobId, { behaviour: { neverEnds: true } });
  }

  endTurn(jobId = 'job'): void {
    const prLink = `https://git.example/${jobId}/pull/${randomUUID()}`;
    this.stack.simulator.changeJob({ projectId: this.id, jobId, status: 'completed', prLink });
  }

  /** Holds the messages to a job at a step. Returns what lets them go on. */
  holdMessages(jobId: string, step: MessageStep): () => void {
    return this.hold(this.id, jobId, step);
  }

  /** Starts a follow-up to a job, which is made if there is none. */
  start(jobId = 'job', more: Partial<StartInput> = {}): Promise<StartedFollowUp> {
    if (!this.stack.simulator.job(this.id, jobId)) this.addJob(jobId);
    return this.stack.followUps.start({ projectId: this.id, jobId, prompt: `message to ${jobId}`, ...FAST, ...more });
  }

  /** Starts follow-ups to as many new jobs. */
  startMany(count: number, name = 'job', more: Partial<StartInput> = {}): Promise<StartedFollowUp[]> {
    return Promise.all(Array.from({ length: count }, (_, index) => this.start(`${name}-${index}`, more)));
  }

  get budget() {
    return this.stack.followUps.budget(this.id);
  }

  /** The newest run of a workflow: a reset makes another. By default the budget's. */
  workflow({ workflowId } = { workflowId: projectBudgetWorkflowId(this.id) }): WorkflowHandle {
    return this.stack.client.workflow.getHandle(workflowId);
  }

  async status() {
    const status = await this.budget.status();
    if (!status) throw new Error(`the project ${this.id} has no budget`);
    return status;
  }

  /** Starts the budget, and waits until it has counted. */
  async startBudget(): Promise<void> {
    await this.budget.resume();
    await eventually('the budget has counted', async () => !(await this.status()).isCounting);
  }

  waiting(count: number): Promise<unknown> {
    return eventually(`${count} wait`, async () => (await this.status()).waitingTotal === count);
  }

  deliveries(count: number): Promise<unknown> {
    return eventually(`${count} are delivered`, () => this.delivered.length === count);
  }

  /** Follow-ups in the line of a paused project. */
  async openBacklog(count: number, limit = 100): Promise<StartedFollowUp[]> {
    await this.budget.pause();
    await this.budget.setLimit({ limit });
    const followUps = await this.startMany(count);
    await this.waiting(count);
    return followUps;
  }

  /** Expects that all complete, each delivered once and nothing else, and no window held more messages than the limit. */
  async endWell(
    followUps: readonly FollowUpHandle[],
    { limit, windowMs }: { limit: number; windowMs: number } = { limit: 100, windowMs: 3_600_000 },
  ): Promise<FollowUpResult[]> {
    const results = await Promise.all(followUps.map((each) => each.result()));
    expect(results.map(({ status, delivery }) => `${status} ${delivery}`)).toEqual(results.map(() => 'completed sent'));
    expect([...this.delivered].sort()).toEqual(results.map(({ jobId }) => jobId).sort());
    expect(this.stack.simulator.maxInAnyWindow(this.id, windowMs)).toBeLessThanOrEqual(limit);
    return results;
  }
}

/** Waits until a follow-up is in a state, and for a reason if one is given. */
export function reaches(followUp: FollowUpHandle, state: string, waitReason?: string): Promise<LiveProgress> {
  return eventually(`${followUp.workflowId} is ${state} ${waitReason ?? ''}`, async () => {
    const progress = await followUp.progress();
    const isReached = progress.state === state && (waitReason === undefined || progress.waitReason === waitReason);
    if (!isReached) throw new Error(`it is ${JSON.stringify(progress)}`);
    return progress;
  });
}
