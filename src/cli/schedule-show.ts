import type { Cli } from './cli.js';
import { describeScheduleText, summariseSchedule } from './schedule-text.js';
import { withTemporal } from './temporal-session.js';

/** Latest firings of each schedule in the list. */
const LISTED_FIRINGS = 3;

/** `follow-up schedule list` */
export async function listSchedules({ env, output }: Cli): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps: { schedules } }) => {
    let count = 0;
    for await (const description of schedules.list()) {
      const firings = await schedules.outcomes(description.recentFirings.slice(0, LISTED_FIRINGS));
      output.data({ ...description, recentFirings: firings }, summariseSchedule(description, firings));
      count++;
    }
    if (count === 0) output.note('no schedules found; a new one may take a second to be listed');
  });
}

/** `follow-up schedule describe` */
export async function describeSchedule({ env, output }: Cli, name: string): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps: { schedules } }) => {
    const description = await schedules.handle(name).describe();
    const firings = await schedules.outcomes(description.recentFirings);
    output.data({ ...description, recentFirings: firings }, describeScheduleText(description, firings));
  });
}
