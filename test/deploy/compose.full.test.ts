import { spawnSync } from 'node:child_process';
import { beforeAll, expect, test } from 'vitest';
import { resolveGoTool } from '../support/go-tools.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { composeServices, repositoryPath, simulatorEnvironment as simulator } from './support.js';

describeWith(await findMissing(['compose-loader']))("Compose's own loader", () => {
  let loader: string;
  beforeAll(async () => {
    loader = await resolveGoTool('compose-loader');
  });

  /** Loads docker-compose.yml with an environment, as Compose does. */
  function load(env: Record<string, string>) {
    const { PATH, HOME } = process.env;
    const cwd = repositoryPath('.');
    return spawnSync(loader, ['docker-compose.yml'], { cwd, env: { PATH, HOME, ...env }, encoding: 'utf8' });
  }

  test('accepts the file, with the services of every profile and an empty setting for "none"', () => {
    const { stdout, stderr } = load({ ...simulator, AGENT_JOBS_API_KEY_FILE: '' });
    type Model = { services: Record<string, { environment?: Record<string, string | null> }> };
    expect(stderr).toBe('');
    const { services } = JSON.parse(stdout) as Model;
    expect(Object.keys(services).sort()).toEqual(Object.keys(composeServices).sort());
    expect(services['worker']?.environment).toMatchObject({ AGENT_JOBS_API_KEY_FILE: '' });
  });

  test.each(['POSTGRES_PASSWORD', 'AGENT_JOBS_BASE_URL', 'AGENT_JOBS_KEYS_DIR'])(
    'refuses the file without %s, and names the page that explains it',
    (name) => {
      const { status, stderr } = load({ ...simulator, [name]: '' });
      expect(status).toBe(1);
      expect(stderr).toContain(`set ${name}, see docs/how-to/containers.md`);
    },
  );
});
