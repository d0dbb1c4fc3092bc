import { onTestFinished, test } from 'vitest';
import { startPostgresRig } from '../support/postgres-rig.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { checkListQueries, serverSettings } from './list-queries.js';

describeWith(await findMissing(['postgres', 'temporal-server']))('with Temporal on PostgreSQL', () => {
  test.each([
    ['unified', true],
    ['legacy', false],
  ])('the %s converter answers every list query rightly', async (_name, isUnified) => {
    const rig = await startPostgresRig({ dynamicConfig: serverSettings(isUnified) });
    onTestFinished(() => rig.stop());
    await checkListQueries(rig.address, isUnified);
  });
});
