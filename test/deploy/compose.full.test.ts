import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { resolveGoTool } from '../support/go-tools.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { repositoryPath, repositoryText, simulatorEnvironment as simulator } from './support.js';

type Model = { services: Record<string, { environment?: Record<string, string | null> }> };

describeWith(await findMissing(['compose-loader']))("Compose's own loader", () => {
  let loader: string;
  beforeAll(async () => {
    loader = await resolveGoTool('compose-loader', process.env);
  });

  /** Loads docker-compose.yml with an environment, as Compose does. */
  function load(env: Record<string, string>, file = 'docker-compose.yml') {
    const { PATH, HOME } = process.env;
    const { status, stdout, stderr } = spawnSync(loader, [file], {
      cwd: repositoryPath('.'),
      env: { PATH, HOME, ...env },
      encoding: 'utf8',
    });
    return { status, stdout, output: `${stdout}${stderr}` };
  }
  const modelOf = (env: Record<string, string>) => JSON.parse(load(env).stdout) as Model;
  const workerOf = (env: Record<string, string>) => modelOf(env).services['worker'];

  test('accepts the file, with the services of every profile', () => {
    expect(load(simulator)).toMatchObject({ status: 0 });
    expect(Object.keys(modelOf(simulator).services)).toEqual(
      expect.arrayContaining(['worker', 'simulator', 'prometheus', 'grafana']),
    );
  });

  test('refuses an unknown key', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'compose-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    const file = join(directory, 'docker-compose.yml');
    await writeFile(file, repositoryText('docker-compose.yml').replace('mem_limit: 2g', 'memory: 2g'));
    const { status, output } = load(simulator, file);
    expect(status).not.toBe(0);
    expect(output).toContain('services.postgres');
  });

  test.each(['POSTGRES_PASSWORD', 'AGENT_JOBS_BASE_URL', 'AGENT_JOBS_KEYS_DIR'])('asks for %s', (name) => {
    const { status, output } = load({ ...simulator, [name]: '' });
    expect(status).not.toBe(0);
    expect(output).toContain(`set ${name}, see docs/how-to/containers.md`);
  });

  test('gives the worker one API key for all projects, or one for each', () => {
    expect(workerOf(simulator)?.environment).toMatchObject({
      AGENT_JOBS_API_KEY_FILE: '/run/keys/api-key',
      AGENT_JOBS_API_KEYS_FILE: '',
    });
    const each = { AGENT_JOBS_API_KEY_FILE: '', AGENT_JOBS_API_KEYS_FILE: '/run/keys/api-keys.json' };
    expect(workerOf({ ...simulator, ...each })?.environment).toMatchObject(each);
  });
});
