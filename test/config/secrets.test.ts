import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { loadClientConfig } from '../../src/config/index.js';
import { keepSecret, maskSecrets } from '../../src/secrets/secrets.js';

// Secrets stay masked for as long as the process runs, so each value is used once.
const readable =
  'x-honeycomb-dataset x-env deployment.environment tenant X-Tenant-Id x-scope-orgid aws-region x-namespace user-agent';
const secret = 'x-honeycomb-team x-tenant-token x-scope-key x-environment-secret x-unknown service-auth';

test.each([...readable.split(' '), ...secret.split(' ')])(
  'a header for Temporal named %s is masked if secret',
  (name) => {
    const value = `value-${randomUUID()}`;
    loadClientConfig({ [`TEMPORAL_GRPC_META_${name.toUpperCase().replaceAll('-', '_')}`]: value });
    expect(maskSecrets(value)).toBe(secret.split(' ').includes(name) ? '[masked]' : value);
  },
);

test('a header that holds a name of this package leaves workflow ids and task queues readable', () => {
  const shown = ['follow-up/p/j/k', 'follow-up-batch/b', 'project-budget/p', 'follow-ups-budget', 'namespace default'];
  for (const value of ['follow-up', 'follow-ups', 'follow-up-batch', 'project-budget', 'default']) {
    loadClientConfig({
      TEMPORAL_GRPC_META_X_APPLICATION: value,
      TEMPORAL_GRPC_META_X_NOTE: `Bearer ${value}`,
      https_proxy: `http://${value}@127.0.0.1:9`,
    });
  }
  expect(shown.map(maskSecrets)).toEqual(shown);
});

test('a password in the address of another program, which may be a plain word, is not masked', () => {
  loadClientConfig({ DATABASE_URL: 'postgres://temporal:temporal@db/temporal' });
  expect(maskSecrets('nobody answers at temporal:7233')).toBe('nobody answers at temporal:7233');
});

test.each(['every', 'literal'] as const)('a secret that begins with another one is masked whole (%s)', (spellings) => {
  const secret = randomUUID();
  const longer = `${secret}-new`;
  keepSecret(longer, spellings);
  keepSecret(secret);
  expect(maskSecrets(`${longer} ${secret}`)).toBe('[masked] [masked]');
});
