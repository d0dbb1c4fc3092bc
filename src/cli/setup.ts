import { callTemporal, toConnectionError } from '../client/temporal-call.js';
import { ensureSearchAttributes } from '../temporal/search-attributes.js';
import type { Cli } from './cli.js';
import { withTemporal } from './temporal-session.js';

/** `follow-up setup` */
export async function setUp({ env, output }: Cli): Promise<void> {
  await withTemporal({ env, output }, async ({ client, connection, config: { namespace } }) => {
    await callTemporal(client, () => connection.workflowService.describeNamespace({ namespace }));
    const { added } = await ensureSearchAttributes(connection, namespace).catch((error: unknown) => {
      throw toConnectionError(client, error) ?? error;
    });
    const done = added.length === 0 ? 'nothing to do, all are there' : `registered ${added.join(', ')}`;
    output.data({ namespace, added }, `namespace ${namespace}: ${done}`);
  });
}
