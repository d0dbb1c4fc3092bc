import { onTestFinished, test } from 'vitest';
import { startDevServer } from '../../src/dev-server/index.js';
import { testServerAge } from '../support/temporal-server-binaries.js';
import { checkListQueries, serverSettings } from './list-queries.js';

test.runIf(testServerAge === 'newest')('the unified converter answers every list query rightly', () => check(true));

test('the legacy converter answers every list query rightly', () => check(false));

async function check(isUnified: boolean): Promise<void> {
  const settings = Object.entries(serverSettings(isUnified));
  const args = settings.flatMap(([name, value]) => ['--dynamic-config-value', `${name}=${value}`]);
  const server = await startDevServer({ env: process.env, args });
  onTestFinished(() => server.stop());
  await checkListQueries(server.address, isUnified);
}
