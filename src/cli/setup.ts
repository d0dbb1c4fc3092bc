import { ensureSearchAttributes } from '../temporal/search-attributes.js';
import type { Cli } from './cli.js';
import { withTemporal } from './session.js';

/** `follow-up setup` */
export async function setUp({ env, output }: Cli): Promise<void> {
  await withTemporal({ env, output }, async ({ followUps, connection, config: { namespace } }) => {
    // Reports an unreachable server or a missing namespace.
    await followUps.budget('any').state();
    const { added } = await ensureSearchAttributes(connection, namespace);
    const done = added.length === 0 ? 'nothing to do, all are registered' : `registered ${added.join(', ')}`;
    output.data({ namespace, added }, `namespace ${namespace}: ${done}`);
  });
}
