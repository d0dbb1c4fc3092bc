import { request } from 'undici';
import { API_KEY } from './settings.js';

/**
 * Activities of the naive workflow. They use the product's HTTP library with its default connection pool, so that the
 * library makes no difference.
 *
 * @param {string} baseUrl of the agent job service
 */
export function createNaiveActivities(baseUrl) {
  const call = async (path, options) => {
    const response = await request(`${baseUrl}/v2/agent/${path}`, {
      ...options,
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
    });
    if (response.statusCode !== 200) throw new Error(`the service answered ${response.statusCode}`);
    return response.body.json();
  };
  return {
    getJob: ({ projectId, jobId }) => call(`${projectId}/job/${jobId}`, { method: 'GET' }),
    sendMessage: ({ projectId, jobId, prompt }) =>
      call(`${projectId}/job/${jobId}/message`, { method: 'POST', body: JSON.stringify({ prompt }) }),
  };
}
