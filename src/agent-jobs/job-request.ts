import { z } from 'zod';
import { describeIssues, idSchema, parseInput } from '../contract/index.js';
import { PACKAGE_VERSION } from '../node/package.js';
import { createMaskCache } from '../secrets/secret-mask.js';
import type { ApiKeys } from './api-keys.js';

const addressSchema = z.object({ projectId: idSchema, jobId: idSchema });
export type JobAddress = z.infer<typeof addressSchema>;

/** Returns a function that prepares the common parts of every request to a job, or says why none can be made. */
export function createJobRequests({ baseUrl, keys }: { baseUrl: string; keys: ApiKeys }) {
  const { origin, pathname } = new URL(baseUrl);
  const pathPrefix = pathname.replace(/\/+$/, '');
  const maskFor = createMaskCache();
  return async ({ projectId, jobId }: JobAddress) => {
    const ids = parseInput(addressSchema, { projectId, jobId });
    if (!ids.ok) return { reason: 'rejected', message: describeIssues(ids.issues) } as const;
    const key = await keys.forProject(projectId);
    if (key === undefined) {
      return { reason: 'no-key', message: `there is no API key for project ${projectId}` } as const;
    }
    const headers = {
      authorization: `Bearer ${key}`,
      accept: 'application/json',
      'accept-encoding': 'identity',
      'user-agent': `agent-follow-up/${PACKAGE_VERSION}`,
    };
    return { origin, path: `${pathPrefix}/v2/agent/${projectId}/job/${jobId}`, headers, mask: maskFor(key) };
  };
}
