import type { ListedFollowUp, ListFilter } from '../client/index.js';
import type { Cli } from './cli.js';
import { clock, localTime, standingOf } from './follow-up-text.js';
import { safeLine } from './safe-text.js';
import { withTemporal } from './temporal-session.js';

interface ListOptions extends ListFilter {
  json?: boolean;
}

/** Widths of the columns but the last. */
const WIDTHS = [26, 18, 9];
const HEADER = row(['STARTED', 'STATE', 'JOB', 'WORKFLOW', '']);

/** `follow-up list` */
export async function listFollowUps({ env, output }: Cli, { json: _json, ...filter }: ListOptions): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps }) => {
    let count = 0;
    const silent = new Map<string, string>();
    for await (const followUp of followUps.list(filter)) {
      if (count++ === 0 && !output.json) output.data(undefined, HEADER);
      output.data(followUp, describeListed(followUp));
      const { unavailable } = followUp.place ?? {};
      if (unavailable !== undefined) silent.set(followUp.projectId, unavailable);
    }
    if (count === 0) output.note('no follow-ups found; a new one may take a second to be listed');
    for (const [projectId, reason] of silent) {
      output.note(safeLine(`places unknown: the budget of ${projectId} does not answer: ${reason}`));
    }
  });
}

/** A line of the list. Times are local. */
export function describeListed(followUp: ListedFollowUp, now = new Date()): string {
  const { workflowId, jobStatus, prLink, place, startedAt } = followUp;
  const expected = place?.expectedAt === undefined ? '' : `expected ${clock(place.expectedAt, now)}`;
  const placeText = place?.position === undefined ? '' : `position ${place.position}`;
  const overdue = place?.overdue === undefined ? '' : `overdue: ${place.overdue}`;
  const last = [placeText, expected, overdue, prLink].filter(Boolean).join(', ');
  return row([localTime(startedAt), standingOf(followUp), jobStatus ?? '-', workflowId, last]);
}

function row(cells: readonly string[]): string {
  return cells
    .map((cell, index) => safeLine(cell).padEnd(WIDTHS[index] ?? 0))
    .join('  ')
    .trimEnd();
}
