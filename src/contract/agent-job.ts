import { z } from 'zod';

/**
 * A job as the service shows it. Every field may be missing (the sample answer of the message endpoint has no
 * `status`), fields the service adds later are kept, and a status it adds later is not terminal.
 */
export const agentJobSchema = z.looseObject({
  id: z.string().optional(),
  status: z.string().optional(),
  source: z.looseObject({ repository: z.string().optional(), ref: z.string().nullish() }).optional(),
  model: z.string().optional(),
  prLink: z.string().nullish(),
  createdAt: z.string().optional(),
  archivedAt: z.string().nullish(),
});
export type AgentJob = z.infer<typeof agentJobSchema>;

/** The statuses that end a job's turn. */
export const terminalStatuses = ['completed', 'archived', 'failed'] as const;
export type TerminalStatus = (typeof terminalStatuses)[number];

/** Whether a status ends a turn. A missing status, and one that the service may add later, does not. */
export function isTerminalStatus(status: string | undefined): status is TerminalStatus {
  return (terminalStatuses as readonly (string | undefined)[]).includes(status);
}
