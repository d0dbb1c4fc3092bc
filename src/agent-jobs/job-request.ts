import { z } from 'zod';
import { describeIssues, idSchema, parseInput } from '../contract/index.js';
import { PACKAGE_VERSION } from '../node/package.js';
import { createMaskCache } from '../secrets/secret-mask.js';
import { type ApiKeys, isUsableApiKey } from './api-keys.js';
import { parseBaseUrl } from './base-url.js';

const addressSchema = z.object({ projectId: idSchema, jobId: idSchema });
export type JobAddress = z.infer<typeof addressSchema>;

/**
 * Returns a function that prepares the common parts of every request to a job, or says why none can be made.
 *
 * @throws Error naming the rule that `baseUrl` breaks
 */
export function createJobRequests({ baseUrl, keys }: { baseUrl: string; keys: ApiKeys }) {
  const { origin, pathPrefix } = parseBaseUrl(baseUrl);
  const maskFor = createMaskCache();
  return async ({ projectId, jobId }: JobAddress) => {
    const ids = parseInput(addressSchema, { projectId, jobId });
    if (!ids.ok) return { reason: 'rejected', message: describeIssues(ids.issues) } as const;
    const key = await keyFor(keys, projectId);
    if ('problem' in key) return { reason: 'no-key', message: key.problem } as const;
    const headers = {
      authorization: `Bearer ${key.key}`,
      accept: 'application/json',
      'accept-encoding': 'identity',
      'user-agent': `agent-follow-up/${PACKAGE_VERSION}`,
    };
    return { origin, path: `${pathPrefix}/v2/agent/${projectId}/job/${jobId}`, headers, mask: maskFor(key.key) };
  };
}

async function keyFor(keys: ApiKeys, projectId: string): Promise<{ key: string } | { problem: string }> {
  const project = `project ${projectId}`;
  try {
    const key = await keys.forProject(projectId);
    if (key === undefined) return { problem: `there is no API key for ${project}` };
    return isUsableApiKey(key) ? { key } : { problem: `the API key of ${project} cannot be sent in a header` };
  } catch {
    // The error may quote a key.
    return { problem: `the API key of ${project} could not be read` };
  }
}
