import { expect, test } from 'vitest';
import { createTimeSkippingEnvironment } from '../support/time-skipping-server.js';
import { isPortFree } from '../../src/embedded/server-process.js';
import { eventually } from '../support/eventually.js';
import { describeWith, findMissing } from '../support/requirements.js';

const missing = await findMissing(['time-skipping-server']);

describeWith(missing)('the time-skipping server', () => {
  test('skips a day at once, and is stopped by the teardown', async () => {
    const environment = await createTimeSkippingEnvironment({
      env: process.env,
      onProgress: (message) => void process.stderr.write(`${message}\n`),
    });
    const port = Number(environment.address.split(':')[1]);
    const before = await environment.currentTimeMs();
    const startedAt = performance.now();
    await environment.sleep('1 day');
    expect((await environment.currentTimeMs()) - before).toBeGreaterThanOrEqual(86_400_000);
    expect(performance.now() - startedAt).toBeLessThan(30_000);
    await environment.teardown();
    await eventually('its port is free', () => isPortFree(port, '127.0.0.1'));
  }, 900_000);
});
