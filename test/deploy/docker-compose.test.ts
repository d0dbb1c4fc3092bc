import { mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { createApiKeys } from '../../src/agent-jobs/index.js';
import { loadConfig } from '../../src/config/index.js';
import { parseDurationMs } from '../../src/contract/index.js';
import { simulatorOptionsSchema } from '../../src/simulator/index.js';
import { GO_SERVER_MODULE } from '../../src/embedded/pins.js';
import { followUpWorkerOptions } from '../../src/worker/worker-options.js';
import { readComposeFile, readRepositoryFile, type ComposeService } from './compose-file.js';
import { lastInstruction, readDockerfile, type DockerStage } from './dockerfile.js';

const simulatorKey = simulatorOptionsSchema.parse({}).apiKey;

let services: Record<string, ComposeService>;
let stages: DockerStage[];

beforeAll(async () => {
  ({ services } = await readComposeFile());
  stages = await readDockerfile();
});

/** Services that stay up; the others do one thing and end. */
function lasting(): [string, ComposeService][] {
  return Object.entries(services).filter(([, { restart }]) => restart === 'unless-stopped');
}

function service(name: string): ComposeService {
  const found = services[name];
  if (found === undefined) throw new Error(`docker-compose.yml has no service ${name}`);
  return found;
}

describe('docker-compose.yml', () => {
  test('has PostgreSQL, Temporal, its UI, a worker, and the simulator as a profile', () => {
    expect(lasting().map(([name]) => name)).toEqual(['postgres', 'temporal', 'temporal-ui', 'worker', 'simulator']);
    expect(service('simulator').profiles).toEqual(['simulator']);
    expect(lasting().filter(([, { profiles }]) => profiles !== undefined).length).toBe(1);
  });

  test('pins every image by its full version and its digest, the same one wherever it is used', () => {
    const images = [...Object.values(services), ...stages].map(({ image }) => image);
    const foreign = new Set(images.filter((image) => !image.startsWith('agent-follow-up:')));
    for (const image of foreign) {
      expect(image).toMatch(/^[a-z-]+(\/[a-z-]+)?:\d+\.\d+(\.\d+)?(-[a-z0-9.-]+)?@sha256:[0-9a-f]{64}$/);
    }
    expect(foreign.size).toBe(5);
  });

  test('runs the server whose binary the native rig runs', () => {
    const version = GO_SERVER_MODULE.newest.version.slice(1);
    expect(service('temporal').image).toMatch(new RegExp(`^temporalio/server:${version}@`));
    expect(service('temporal-schema').image).toMatch(new RegExp(`^temporalio/admin-tools:${version}@`));
    expect(service('temporal-namespace').image).toBe(service('temporal-schema').image);
  });

  test('names this package and its version as the image', async () => {
    const { name, version } = parse(await readRepositoryFile('package.json')) as { name: string; version: string };
    for (const each of ['worker', 'simulator']) {
      expect(service(each)).toMatchObject({ image: `${name}:${version}`, build: '.' });
    }
  });

  test('asks everything that stays up for its health', () => {
    for (const [name, { healthcheck }] of lasting()) {
      if (name === 'worker') expect(lastInstruction(stages.at(-1), 'HEALTHCHECK')).toContain(':9464/healthz');
      else expect(healthcheck?.test[0], name).toBe('CMD');
    }
  });

  test('waits for health, or for the end of a job, never only for a start', () => {
    for (const [name, { depends_on: dependencies = {} }] of Object.entries(services)) {
      for (const [needed, { condition }] of Object.entries(dependencies)) {
        const expected = lasting().some(([each]) => each === needed)
          ? 'service_healthy'
          : 'service_completed_successfully';
        expect(condition, `${name} needs ${needed}`).toBe(expected);
      }
    }
    expect(Object.keys(service('worker').depends_on ?? {})).toEqual(['temporal', 'temporal-namespace']);
  });

  test('runs nothing as root, and lets nothing gain rights', () => {
    for (const [name, { user, security_opt: options }] of Object.entries(services)) {
      expect(['root', '0', '0:0'], name).not.toContain(user);
      expect(options, name).toEqual(['no-new-privileges:true']);
    }
    expect(service('postgres').user).toBe('postgres');
    expect(service('worker')).toMatchObject({ user: '1000:1000', read_only: true });
    expect(lastInstruction(stages.at(-1), 'USER')).toBe('1000:1000');
  });

  test('publishes ports on loopback only', () => {
    const ports = Object.values(services).flatMap(({ ports: each }) => each ?? []);
    expect(ports.sort()).toEqual([
      '127.0.0.1:7233:7233',
      '127.0.0.1:8080:8080',
      '127.0.0.1:8233:8080',
      '127.0.0.1:9464:9464',
    ]);
  });

  test('holds no secret: the password comes from the environment, the key from a file', async () => {
    const text = await readRepositoryFile('docker-compose.yml');
    for (const line of text.split('\n').filter((each) => /PASSWORD:|PWD:|API_KEY:/.test(each))) {
      expect(line).toMatch(/: \$\{[A-Z_]+:\?/);
    }
    expect(service('worker').environment?.['AGENT_JOBS_API_KEY_FILE']).toBe('/run/keys/api-key');
    expect(text).not.toContain(simulatorKey);
  });

  test("gives a worker settings it knows, and time for its sends' ends", async () => {
    const environment = await simulatorEnvironment(service('worker'));
    const config = loadConfig({
      ...environment,
      AGENT_JOBS_API_KEY_FILE: repositoryPath('deploy/simulator-keys/api-key'),
    });
    expect(config).toMatchObject({
      temporal: { address: 'temporal:7233', namespace: 'default' },
      agentJobs: { baseUrl: 'http://simulator:8080' },
      status: { host: '0.0.0.0', port: 9464 },
    });
    const documented = await readRepositoryFile('src/config/index.ts');
    const readers = await Promise.all(
      ['agent-jobs-config', 'temporal-config'].map((name) => readRepositoryFile(`src/config/${name}.ts`)),
    );
    const known = [documented, ...readers].join('\n');
    for (const name of Object.keys(environment).filter((each) => !each.startsWith('TEMPORAL_'))) {
      expect(known, name).toContain(name);
    }
    const stopMs = parseDurationMs(service('worker').stop_grace_period);
    expect(stopMs).toBeGreaterThan(Number(followUpWorkerOptions(config).shutdownForceTime));
  });

  test('mounts only files that are in the repository', async () => {
    const mounts = Object.values(services).flatMap(({ volumes = [] }) =>
      volumes.filter((each) => each.startsWith('.')),
    );
    expect(mounts.length).toBeGreaterThan(0);
    for (const mount of mounts) {
      const [source = '', , mode] = mount.split(':');
      expect((await stat(repositoryPath(source))).isFile(), source).toBe(true);
      expect(mode).toBe('ro');
    }
  });

  test('mounts the directory of the key, so that a key that is renamed into its place is seen without a restart', async () => {
    const [mount = ''] = service('worker').volumes ?? [];
    const [, source, variable, target] = /^(\$\{(\w+):\?[^}]*\}):([^:]+):ro$/.exec(mount) ?? [];
    expect(source).toBeDefined();
    expect(service('worker').environment?.['AGENT_JOBS_API_KEY_FILE']).toBe(`${target}/api-key`);
    const given = (await readRepositoryFile('deploy/simulator.env')).split('\n');
    const directory = given.find((line) => line.startsWith(`${variable}=`))?.split('=')[1];
    expect((await stat(repositoryPath(String(directory)))).isDirectory()).toBe(true);
    // As deploy/README.md says it: what a worker sees of a mounted directory is what stands in it.
    const keys = await mkdtemp(join(tmpdir(), 'keys-'));
    onTestFinished(() => rm(keys, { recursive: true }));
    await writeFile(join(keys, 'api-key'), 'adm_the-old-key');
    const read = createApiKeys({ keyFile: join(keys, 'api-key') });
    expect(await read.forProject('p')).toBe('adm_the-old-key');
    await writeFile(join(keys, 'api-key.new'), 'adm_the-new-key');
    await rename(join(keys, 'api-key.new'), join(keys, 'api-key'));
    expect(await read.forProject('p')).toBe('adm_the-new-key');
  });

  test("the simulator's key is the one that the simulator asks for", async () => {
    expect((await readRepositoryFile('deploy/simulator-keys/api-key')).trim()).toBe(simulatorKey);
  });
});

/** A service's environment as `--env-file deploy/simulator.env` gives it. */
async function simulatorEnvironment({ environment = {} }: ComposeService): Promise<Record<string, string>> {
  const lines = (await readRepositoryFile('deploy/simulator.env')).split('\n');
  const given = Object.fromEntries(lines.filter((each) => /^\w+=/.test(each)).map((each) => each.split('=', 2)));
  const resolve = (text: string) =>
    text.replace(/\$\{(\w+)(?::[-?]([^}]*))?\}/g, (_, name: string, fallback: string) =>
      String(given[name] ?? fallback),
    );
  return Object.fromEntries(Object.entries(environment).map(([name, text]) => [name, resolve(text)]));
}

function repositoryPath(path: string): string {
  return new URL(`../../${path}`, import.meta.url).pathname;
}
