import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { loadClientConfig } from '../../src/config/index.js';
import { keepSecret, maskSecrets } from '../../src/secrets/secrets.js';

// Secrets stay masked for as long as the process runs, so each value is used once.

/** Loads a configuration with a header for Temporal, and returns its value as texts show it. */
function shownValueOf(headerName: string): { value: string; shown: string } {
  const value = `value-${randomUUID()}`;
  loadClientConfig({ [`TEMPORAL_GRPC_META_${headerName.toUpperCase().replaceAll('-', '_')}`]: value });
  return { value, shown: maskSecrets(value) };
}

test.each([
  'x-honeycomb-team',
  'x-tenant-token',
  'x-scope-key',
  'x-environment-secret',
  'x-unknown',
  'service-auth',
  'x-myenv',
  'sometenant',
])('the value of the header %s for Temporal is masked', (name) => {
  expect(shownValueOf(name).shown).toBe('[masked]');
});

test.each([
  'x-honeycomb-dataset',
  'x-env',
  'deployment.environment',
  'tenant',
  'X-Tenant-Id',
  'x-scope-orgid',
  'aws-region',
  'x-namespace',
  'user-agent',
])('the value of the header %s for Temporal is shown', (name) => {
  const { value, shown } = shownValueOf(name);
  expect(shown).toBe(value);
});

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

test('a password in the address of another program is not masked, because it may be a plain word', () => {
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
