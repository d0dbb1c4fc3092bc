import type { FollowUpSummary } from '../client/index.js';
import type { Cli } from './cli.js';
import { safeLine } from './safe-text.js';
import { withTemporal } from './temporal-session.js';

interface ListOptions {
  project?: string;
  state?: string;
  batch?: string;
}

/** `follow-up list` */
export async function listFollowUps({ env, output }: Cli, { project, state, batch }: ListOptions): Promise<void> {
  const filter = {
    ...(project !== undefined && { project }),
    ...(state !== undefined && { state }),
    ...(batch !== undefined && { batch }),
  };
  await withTemporal({ env, output }, async ({ followUps }) => {
    let count = 0;
    for await (const summary of followUps.list(filter)) {
      output.data(summary, describeSummary(summary));
      count++;
    }
    if (count === 0) output.note('no follow-ups found; a new one may take a second to be listed');
  });
}

function describeSummary({ workflowId, status, state, jobStatus, prLink, startedAt }: FollowUpSummary): string {
  const standing = status === 'running' ? (state ?? 'starting') : status;
  return [startedAt, standing.padEnd(18), (jobStatus ?? '-').padEnd(9), workflowId, prLink ?? '']
    .map((part) => (part.endsWith(' ') ? part : safeLine(part)))
    .join('  ')
    .trimEnd();
}
