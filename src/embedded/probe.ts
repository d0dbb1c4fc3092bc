import { Connection } from '@temporalio/client';

const ATTEMPT_TIMEOUT_MS = 1_000;
const NAMESPACE_TIMEOUT_MS = 2_000;

/**
 * Whether a Temporal server answers, and knows a namespace if one is named.
 *
 * @throws Error with the reason while it does not
 */
export async function probeTemporal(address: string, namespace?: string): Promise<boolean> {
  const connection = await Connection.connect({ address, connectTimeout: ATTEMPT_TIMEOUT_MS, interceptors: [] });
  try {
    if (namespace !== undefined) {
      await connection.withDeadline(Date.now() + NAMESPACE_TIMEOUT_MS, () =>
        connection.workflowService.describeNamespace({ namespace }),
      );
    }
    return true;
  } finally {
    await connection.close();
  }
}
