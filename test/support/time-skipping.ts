import type { WorkflowHandle } from '@temporalio/client';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { createTimeSkippingEnvironment } from './time-skipping-server.js';
import type { FollowUpResult } from '../../src/contract/index.js';
import { ScriptedService } from './scripted-service.js';
import { installQuietRuntime, startWorkflowRig, type WorkflowRig, type WorkflowRigOptions } from './workflow-rig.js';

/** Both workers on a time-skipping server, with a scripted service. All workflows share its time. */
export interface TimeSkippingRig extends WorkflowRig {
  service: ScriptedService;
  /** Lets `ms` of the server's time pass. */
  advance(ms: number): Promise<void>;
  /** The server's time in epoch milliseconds. */
  nowMs(): Promise<number>;
  /**
   * Lets time pass until a workflow is closed, then returns its result. It does not use the environment's own client,
   * which skips while anything runs: with a budget that never ends, ten years at once.
   */
  end(handle: Pick<WorkflowHandle, 'describe' | 'result'>, stepMs?: number, mostMs?: number): Promise<FollowUpResult>;
}

/** Starts the rig. `stop` also stops the server. */
export async function startTimeSkippingRig(
  options: Partial<Omit<WorkflowRigOptions, 'address' | 'agentJobs'>> = {},
): Promise<TimeSkippingRig> {
  await installQuietRuntime();
  const env: TestWorkflowEnvironment = await createTimeSkippingEnvironment({ env: process.env });
  const service = new ScriptedService();
  const address = env.address ?? '';
  const rig = await startWorkflowRig({ address, agentJobs: service, ...options });
  return {
    ...rig,
    service,
    advance: (ms) => env.sleep(ms),
    nowMs: () => env.currentTimeMs(),
    async end(handle, stepMs = 10_000, mostMs = 400 * stepMs) {
      for (let passedMs = 0; passedMs <= mostMs; passedMs += stepMs) {
        const { status } = await handle.describe();
        if (status.name !== 'RUNNING') return (await handle.result()) as FollowUpResult;
        await env.sleep(stepMs);
      }
      throw new Error(`The workflow still runs after ${mostMs} ms`);
    },
    async stop() {
      await rig.stop();
      await env.teardown();
    },
  };
}
