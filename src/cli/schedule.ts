import type { Command } from 'commander';
import type { Cli } from './cli.js';
import { addScheduleBackfillCommand } from './schedule-backfill.js';
import { addScheduleCreateCommand } from './schedule-create.js';
import { addScheduleViewCommands } from './schedule-list.js';
import { addScheduleOrderCommands } from './schedule-orders.js';

/** `follow-up schedule …` */
export function addScheduleCommand(program: Command, cli: Cli): void {
  const schedule = program.command('schedule').description('start batches of follow-ups at set times');
  addScheduleCreateCommand(schedule, cli);
  addScheduleViewCommands(schedule, cli);
  addScheduleOrderCommands(schedule, cli);
  addScheduleBackfillCommand(schedule, cli);
}
