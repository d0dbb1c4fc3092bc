import { Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { ensureSearchAttributes, SearchAttributesError } from '../../src/temporal/search-attributes.js';
import { runCli } from '../cli/run-cli.js';
import { makeNamespace } from './support.js';

describe('search attributes', () => {
  let connection: Connection;
  beforeAll(async () => {
    connection = await Connection.connect({ address: inject('temporalAddress') });
  });
  afterAll(() => connection.close());

  test('are registered once and can then be queried', async () => {
    const namespace = await makeNamespace(connection);
    const first = await ensureSearchAttributes(connection, namespace);
    expect(first.added.sort()).toEqual([
      'FollowUpBatchId',
      'FollowUpJobId',
      'FollowUpJobStatus',
      'FollowUpPrLink',
      'FollowUpProjectId',
      'FollowUpState',
    ]);
    const query = 'FollowUpState = "polling" AND FollowUpBatchId = "b"';
    await connection.workflowService.listWorkflowExecutions({ namespace, query });
    expect(await ensureSearchAttributes(connection, namespace)).toEqual({ added: [] });
  });

  test('can be registered by many at once', async () => {
    const namespace = await makeNamespace(connection);
    await Promise.all([1, 2, 3, 4].map(() => ensureSearchAttributes(connection, namespace)));
    const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
    expect(Object.keys(customAttributes)).toContain('FollowUpState');
  });

  test('are refused if one exists with another type', async () => {
    const namespace = await makeNamespace(connection);
    const integer = 3;
    await connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: Object.fromEntries([['FollowUpState', integer]]),
    });
    await expect(ensureSearchAttributes(connection, namespace)).rejects.toThrow(/FollowUpState with another type/);
    await expect(ensureSearchAttributes(connection, namespace)).rejects.toBeInstanceOf(SearchAttributesError);
  });

  test('that do not fit into the namespace: the error of the library and of `setup` says how many are needed and free, and what it advises works', async () => {
    const namespace = await makeNamespace(connection);
    const { operatorService } = connection;
    const keyword = 2;
    const others = Array.from({ length: 7 }, (_, index) => `Other${index}`);
    await operatorService.addSearchAttributes({
      namespace,
      searchAttributes: Object.fromEntries(others.map((name) => [name, keyword])),
    });
    const advice = /6 needed, 3 free, because the server allows 10 of type Keyword.* Remove .*TEMPORAL_NAMESPACE/;
    await expect(ensureSearchAttributes(connection, namespace)).rejects.toThrow(advice);
    const env = { TEMPORAL_ADDRESS: inject('temporalAddress'), TEMPORAL_NAMESPACE: namespace };
    const { exitCode, stderr } = await runCli(['setup'], { env });
    expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: expect.stringMatching(advice) });
    expect(stderr).not.toMatch(/follow-up setup|credentials/);

    await operatorService.removeSearchAttributes({ namespace, searchAttributes: others.slice(0, 3) });
    expect((await ensureSearchAttributes(connection, namespace)).added).toHaveLength(6);
  });
});
