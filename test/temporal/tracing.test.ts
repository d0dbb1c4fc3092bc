import { expect, test } from 'vitest';
import { startTracing } from '../../src/temporal/tracing.js';

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' };

test.each([
  ['without an endpoint', {}],
  ['with an endpoint that is set to nothing', { OTEL_EXPORTER_OTLP_ENDPOINT: '' }],
  ['when it is disabled', { ...endpoint, OTEL_SDK_DISABLED: 'TRUE' }],
  ['with another exporter', { ...endpoint, OTEL_TRACES_EXPORTER: 'none' }],
])('tracing is off %s', async (_case, env) => {
  expect(await startTracing(env)).toBeUndefined();
});

test('tracing is on with an endpoint, though other variables are set to nothing', async () => {
  const tracing = await startTracing({ ...endpoint, OTEL_SDK_DISABLED: '', OTEL_TRACES_EXPORTER: '' });
  expect(tracing).toBeDefined();
  await tracing?.close();
});
