import { z } from 'zod';
import { budgetTaskQueue, idSchema, projectBudgetWorkflowId } from '../contract/index.js';

// How a budget is started, and with which settings.

const count = z.int().min(0).max(10_000);

const settingsSchema = z.object({
  limit: count,
  windowMs: z.number().min(1).max(31_536_000_000),
  /** Slots kept free of the batch lane. */
  reserve: count,
  /** Time beyond the window for which a slot stays in use, because clocks differ. */
  marginMs: z.number().min(0).max(3_600_000),
});
export type BudgetSettings = z.infer<typeof settingsSchema>;

/** Input of the `projectBudget` workflow. Internal: workers and `follow-up budget restore` start it. */
export const projectBudgetInputSchema = z.object({
  projectId: idSchema,
  settings: settingsSchema,
  /** Books all free slots as used, for an operator who does not trust the list of follow-ups. */
  assumeFull: z.literal(true).exactOptional(),
});
export type ProjectBudgetInput = z.infer<typeof projectBudgetInputSchema>;

export function budgetStartOptions({ projectId, taskQueue }: { projectId: string; taskQueue: string }) {
  return {
    workflowId: projectBudgetWorkflowId(projectId),
    taskQueue: budgetTaskQueue(taskQueue),
    staticSummary: `Message budget of project ${projectId}`,
  };
}

/**
 * Starts a budget with an update or a signal, but only if Temporal keeps no closed one: a stopped budget starts again
 * only by `restore`. `taskQueue` is that of the follow-ups.
 */
export function firstBudgetStart(target: ProjectBudgetInput & { taskQueue: string }) {
  const { projectId, settings } = target;
  const input: ProjectBudgetInput = { projectId, settings };
  return {
    ...budgetStartOptions(target),
    args: [input],
    workflowIdReusePolicy: 'REJECT_DUPLICATE' as const,
    workflowIdConflictPolicy: 'USE_EXISTING' as const,
  };
}
