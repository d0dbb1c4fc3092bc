import type { Command } from 'commander';
import { addBatchCancelCommand } from './batch-cancel.js';
import { addBatchRetryCommand } from './batch-retry.js';
import { addBatchRunCommand } from './batch-run.js';
import { addBatchStatusCommand } from './batch-status.js';
import type { Cli } from './cli.js';

/** `follow-up batch …` */
export function addBatchCommand(program: Command, cli: Cli): void {
  const batch = program.command('batch').description('send follow-up messages to many agent jobs, and look after them');
  addBatchRunCommand(batch, cli);
  addBatchStatusCommand(batch, cli);
  addBatchRetryCommand(batch, cli);
  addBatchCancelCommand(batch, cli);
}
