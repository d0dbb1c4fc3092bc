import { mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { createApiKeys } from '../../src/agent-jobs/index.js';
import { loadConfig } from '../../src/config/index.js';
import { parseDurationMs } from '../../src/contract/index.js';
import { simulatorOptionsSchema } from '../../src/simulator/index.js';
import { shutdownForceMs } from '../../src/worker/options.js';
import { GO_SERVER_MODULE } from '../support/pins.js';
import { readComposeFile, readRepositoryFile, type ComposeService } from './compose-file.js';
import { lastInstruction, readDockerfile, type DockerStage } from './dockerfile.js';
import { knownSettings } from './settings.js';

const simulatorKey = simulatorOptionsSchema.parse({}).apiKey;

let services: Record<string, ComposeService>;
let stages: DockerStage[];

beforeAll(async () => {
  ({ services } = await readComposeFile());
  stages = await readDockerfile();
});

/** The services that stay up. The others do one thing and end. */
function lasting(): [string, ComposeService][] {
  return Object.entries(services).filter(([, { restart }]) => restart === 'unless-stopped');
}

function service(name: string): ComposeService {
  const found = services[name];
  if (found === undefined) throw new Error(`docker-compose.yml has no service ${name}`);
  return found;
}

describe('docker-compose.yml', () => {
  test('has PostgreSQL, Temporal, its UI, a worker, and the simulator and the monitoring as profiles', () => {
    const always = ['postgres', 'temporal', 'temporal-ui', 'worker'];
    expect(lasting().map(([name]) => name)).toEqual([...always, 'simulator', 'prometheus', 'grafana']);
    const profiles = lasting().flatMap(([name, each]) => (each.profiles ? [[name, ...each.profiles]] : []));
    expect(profiles).toEqual([
      ['simulator', 'simulator'],
      ['prometheus', 'monitoring'],
      ['grafana', 'monitoring'],
    ]);
  });

  test('limits the memory and the log of every service', () => {
    for (const [name, { mem_limit: memory, logging }] of Object.entries(services)) {
      expect(memory, name).toMatch(/^\d+[mg]$/);
      expect(logging, name).toEqual({ driver: 'json-file', options: { 'max-size': '10m', 'max-file': '5' } });
    }
  });

  test('pins every image by its full version and its digest', () => {
    const images = [...Object.values(services), ...stages].map(({ image }) => image);
    const foreign = new Set(images.filter((image) => !image.startsWith('agent-follow-up:')));
    for (const image of foreign) {
      expect(image).toMatch(/^[a-z-]+(\/[a-z-]+)?:v?\d+\.\d+(\.\d+)?(-[a-z0-9.-]+)?@sha256:[0-9a-f]{64}$/);
    }
    expect(foreign.size).toBe(7);
  });

  test('runs the same server version as the native rig', () => {
    const version = GO_SERVER_MODULE.newest.version.slice(1);
    expect(service('temporal').image).toMatch(new RegExp(`^temporalio/server:${version}@`));
    expect(service('temporal-schema').image).toMatch(new RegExp(`^temporalio/admin-tools:${version}@`));
    expect(service('temporal-namespace').image).toBe(service('temporal-schema').image);
  });

  test('names its image after this package and its version', async () => {
    const { name, version } = parse(await readRepositoryFile('package.json')) as { name: string; version: string };
    for (const each of ['worker', 'simulator']) {
      expect(service(each)).toMatchObject({ image: `${name}:${version}`, build: { dockerfile: 'deploy/Dockerfile' } });
    }
  });

  test('checks the health of every service that stays up', () => {
    for (const [name, { healthcheck }] of lasting()) {
      if (name === 'worker') expect(lastInstruction(stages.at(-1), 'HEALTHCHECK')).toContain(':9464/healthz');
      else expect(healthcheck?.test[0], name).toBe('CMD');
    }
  });

  test('waits for health or for the end of a one-time service, never only for a start', () => {
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

  test('runs nothing as root, and allows no new privileges', () => {
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
      '127.0.0.1:3000:3000',
      '127.0.0.1:7233:7233',
      '127.0.0.1:8080:8080',
      '127.0.0.1:8233:8080',
      '127.0.0.1:9090:9090',
      '127.0.0.1:9464-9473:9464',
    ]);
  });

  test('can scale the worker: no two workers need the same port or name', async () => {
    const [range = ''] = service('worker').ports ?? [];
    const [, from, to] = /:(\d+)-(\d+):9464$/.exec(range) ?? [];
    expect(Number(to) - Number(from)).toBeGreaterThanOrEqual(3);
    expect(await readRepositoryFile('docker-compose.yml')).not.toContain('container_name');
  });

  test('Prometheus scrapes every worker, and Grafana finds Prometheus and the dashboards', async () => {
    const prometheus = parse(await readRepositoryFile('deploy/prometheus/prometheus.yaml')) as {
      rule_files: string[];
      scrape_configs: { dns_sd_configs: { names: string[]; type: string; port: number }[] }[];
    };
    expect(prometheus.scrape_configs[0]?.dns_sd_configs).toMatchObject([{ names: ['worker'], type: 'A', port: 9464 }]);
    const mounted = (name: string) => (service(name).volumes ?? []).map((each) => each.split(':').slice(0, 2));
    const targets = new Map(mounted('prometheus').map(([source = '', target = '']) => [target, source]));
    const [config] = (service('prometheus').command ?? []).flatMap((each) => each.split('--config.file=')[1] ?? []);
    expect(targets.get(String(config))).toBe('./deploy/prometheus/prometheus.yaml');
    for (const file of prometheus.rule_files) {
      expect(targets.get(join(String(config), '..', file))).toBe(`./deploy/prometheus/${file}`);
    }
    const { datasources } = parse(await readRepositoryFile('deploy/grafana/datasources.yaml')) as {
      datasources: { url: string; type: string }[];
    };
    expect(datasources).toMatchObject([{ type: 'prometheus', url: 'http://prometheus:9090' }]);
    const { providers } = parse(await readRepositoryFile('deploy/grafana/dashboards.yaml')) as {
      providers: { options: { path: string } }[];
    };
    const dashboards = mounted('grafana').filter(([source = '']) => source.endsWith('.json'));
    expect(dashboards).toHaveLength(2);
    for (const [, target = ''] of dashboards) expect(join(target, '..')).toBe(providers[0]?.options.path);
  });

  test('contains no secret: the password comes from the environment, the API key from a file', async () => {
    const text = await readRepositoryFile('docker-compose.yml');
    for (const line of text.split('\n').filter((each) => /PASSWORD:|PWD:|API_KEY:/.test(each))) {
      expect(line).toMatch(/: \$\{[A-Z_]+:\?/);
    }
    expect(service('worker').environment?.['AGENT_JOBS_API_KEY_FILE']).toMatch(/^\$\{\w+-\/run\/keys\/api-key\}$/);
    expect(text).not.toContain(simulatorKey);
  });

  test('gives a worker settings that it knows, and time to finish its sends', async () => {
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
    const known = await knownSettings();
    expect(Object.keys(environment).filter((name) => !known.has(name))).toEqual([]);
    const stopMs = parseDurationMs(service('worker').stop_grace_period);
    expect(stopMs).toBeGreaterThan(shutdownForceMs(config));
  });

  test('passes on every setting of a worker that is not fixed here', async () => {
    const known = [...(await knownSettings())];
    expect(known.length).toBeGreaterThan(30);
    const environment = service('worker').environment ?? {};
    /** Settings that nobody can set from outside, with the reason. */
    const fixed: [names: RegExp, reason: string][] = [
      [/^TEMPORAL_(?!DEPLOYMENT_|WORKER_)/, 'the server of this file asks for neither a certificate nor a key'],
      [/^AGENT_JOBS_API_KEY$/, 'a key in the environment shows in "docker inspect"'],
      [/^FOLLOW_UP_STATUS_ADDRESS$/, 'the published port leads there'],
    ];
    for (const name of known.filter((each) => !fixed.some(([names]) => names.test(each)))) {
      expect(environment[name], name).toMatch(new RegExp(`^\\$\\{${name}(:?-.*|:\\?.*)\\}$`));
    }
  });

  test('accepts an API key for each project instead of one for all', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'keys-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    const keysFile = join(directory, 'api-keys.json');
    await writeFile(keysFile, JSON.stringify({ demo: 'adm_a-key-for-demo' }), { mode: 0o600 });
    const environment = composeEnvironment(service('worker'), {
      AGENT_JOBS_BASE_URL: 'https://api.example.com',
      AGENT_JOBS_API_KEY_FILE: '',
      AGENT_JOBS_API_KEYS_FILE: keysFile,
      FOLLOW_UP_BUDGET_LIMIT: '50',
    });
    const config = loadConfig(environment);
    expect(config.agentJobs.apiKeys).toEqual({ keysFile });
    expect(config.budget.limit).toBe(50);
  });

  test('its scripts have the line ends of a shell, also in a clone on Windows', async () => {
    expect(await readRepositoryFile('.gitattributes')).toMatch(/^\* text=auto eol=lf$/m);
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

  test('mounts the directory of the key, so a key that is renamed into place is used without a restart', async () => {
    const [mount = ''] = service('worker').volumes ?? [];
    const [, source, variable, target] = /^(\$\{(\w+):\?[^}]*\}):([^:]+):ro$/.exec(mount) ?? [];
    expect(source).toBeDefined();
    expect(service('worker').environment?.['AGENT_JOBS_API_KEY_FILE']).toContain(`-${target}/api-key}`);
    const given = (await readRepositoryFile('deploy/simulator.env')).split('\n');
    const directory = given.find((line) => line.startsWith(`${variable}=`))?.split('=')[1];
    expect((await stat(repositoryPath(String(directory)))).isDirectory()).toBe(true);
    // The steps of docs/how-to/run-in-production.md, "Rotate an API key".
    const keys = await mkdtemp(join(tmpdir(), 'keys-'));
    onTestFinished(() => rm(keys, { recursive: true }));
    await writeFile(join(keys, 'api-key'), 'adm_the-old-key');
    const read = createApiKeys({ keyFile: join(keys, 'api-key') });
    expect(await read.forProject('p')).toBe('adm_the-old-key');
    await writeFile(join(keys, 'api-key.new'), 'adm_the-new-key');
    await rename(join(keys, 'api-key.new'), join(keys, 'api-key'));
    expect(await read.forProject('p')).toBe('adm_the-new-key');
  });

  test('contains the key that the simulator expects', async () => {
    expect((await readRepositoryFile('deploy/simulator-keys/api-key')).trim()).toBe(simulatorKey);
  });
});

/** A service's environment with `--env-file deploy/simulator.env`. */
async function simulatorEnvironment(each: ComposeService): Promise<Record<string, string>> {
  const lines = (await readRepositoryFile('deploy/simulator.env')).split('\n');
  const given = lines.filter((line) => /^\w+=/.test(line)).map((line) => line.split('=', 2));
  return composeEnvironment(each, Object.fromEntries(given) as Record<string, string>);
}

/**
 * A service's environment, with `${NAME:-default}` (also for empty values) and `${NAME-default}` resolved as in
 * Compose.
 */
function composeEnvironment(
  { environment = {} }: ComposeService,
  given: Record<string, string>,
): Record<string, string> {
  const resolve = (text: string) =>
    text.replace(/\$\{(\w+)(?:(:?)[-?]([^}]*))?\}/g, (_, name: string, colon: string, fallback = '') => {
      const value = given[name];
      return value === undefined || (colon === ':' && value === '') ? String(fallback) : value;
    });
  return Object.fromEntries(Object.entries(environment).map(([name, text]) => [name, resolve(text)]));
}

function repositoryPath(path: string): string {
  return new URL(`../../${path}`, import.meta.url).pathname;
}
