import { expect, onTestFinished, test } from 'vitest';
import { checkService } from '../../src/cli/doctor-service.js';
import { loadConfig } from '../../src/config/index.js';
import { answer, startPeer } from '../agent-jobs/support/peer.js';

/** What doctor finds at a service that answers each read with the same text. */
async function checkAnswer(text: string, project?: string) {
  const peer = await startPeer({ onRequest: ({ socket }) => socket.end(text) });
  onTestFinished(() => peer.close());
  const config = loadConfig({ AGENT_JOBS_BASE_URL: peer.url, AGENT_JOBS_API_KEY: 'adm_0123456789abcdef' });
  return checkService(config, { projects: [], ...(project !== undefined && { project }) });
}

test.for(['shop', undefined])(
  'doctor reports a service that answers 200 with an error (project %s)',
  async (project) => {
    const checks = await checkAnswer(answer(200, { error: 'session expired' }), project);
    expect(checks).toContainEqual(
      expect.objectContaining({
        name: 'agent job service',
        status: 'error',
        message: expect.stringMatching(/HTTP 200, but not an agent job: session expired$/) as string,
      }),
    );
  },
);

test('doctor accepts a service that does not know its made-up job', async () => {
  const checks = await checkAnswer(answer(404, { error: 'not found' }), 'shop');
  expect(checks).toContainEqual(expect.objectContaining({ name: 'agent job service', status: 'ok' }));
});
