import type { Command } from 'commander';
import { callTemporal, toConnectionError } from '../client/temporal-call.js';
import { ensureSearchAttributes } from '../temporal/search-attributes.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up setup` */
export function addSetupCommand(program: Command, cli: Cli): void {
  const command = program
    .command('setup')
    .description('register the search attributes of follow-ups in the namespace; may be run again at any time');
  withCommonOptions(command, 'TEMPORAL_ADDRESS=temporal.example.com:7233 follow-up setup').action(async () => {
    cli.exitCode = await withTemporal(cli.env, async ({ client, connection, config: { namespace } }) => {
      await callTemporal(client, () => connection.workflowService.describeNamespace({ namespace }));
      const { added } = await ensureSearchAttributes(connection, namespace).catch((error: unknown) => {
        throw toConnectionError(client, error) ?? error;
      });
      const done = added.length === 0 ? 'nothing to do, all are there' : `registered ${added.join(', ')}`;
      cli.output.data({ namespace, added }, `namespace ${namespace}: ${done}`);
      return ExitCode.ok;
    });
  });
}
