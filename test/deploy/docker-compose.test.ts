import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/index.js';
import { parseDurationMs } from '../../src/contract/index.js';
import { simulatorOptionsSchema } from '../../src/simulator/index.js';
import { shutdownForceMs } from '../../src/worker/options.js';
import { GO_SERVER_MODULE } from '../support/pins.js';
import * as s from './support.js';

const { composeServices: services, dockerStages: stages, repositoryPath, repositoryText } = s;
const text = repositoryText('docker-compose.yml');
const simulatorKey = simulatorOptionsSchema.parse({}).apiKey;
/** The services that stay up. The others do one thing and end. */
const lasting = Object.entries(services).filter(([, { restart }]) => restart === 'unless-stopped');

function service(name: string): s.ComposeService {
  const found = services[name];
  if (found === undefined) throw new Error(`docker-compose.yml has no service ${name}`);
  return found;
}

/** The worker's environment, with `${NAME:-default}` (also for empty values) and `${NAME-default}` resolved as in Compose. */
function workerEnvironment(given: Record<string, string>): Record<string, string> {
  const resolve = (value: string) =>
    value.replace(/\$\{(\w+)(?:(:?)[-?]([^}]*))?\}/g, (_, name: string, colon: string, fallback = '') => {
      const set = given[name];
      return set === undefined || (colon === ':' && set === '') ? String(fallback) : set;
    });
  const { environment = {} } = service('worker');
  return Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, resolve(value)]));
}

describe('docker-compose.yml', () => {
  test('has PostgreSQL, Temporal, its UI, a worker, and the simulator and the monitoring as profiles', () => {
    const always = ['postgres', 'temporal', 'temporal-ui', 'worker'];
    expect(lasting.map(([name]) => name)).toEqual([...always, 'simulator', 'prometheus', 'grafana']);
    const profiles = Object.fromEntries(
      lasting.flatMap(([name, each]) => (each.profiles ? [[name, each.profiles]] : [])),
    );
    expect(profiles).toEqual({ simulator: ['simulator'], prometheus: ['monitoring'], grafana: ['monitoring'] });
  });

  test('limits the memory and the log of every service, and runs nothing as root or with new privileges', () => {
    for (const [name, { mem_limit, logging, user, security_opt }] of Object.entries(services)) {
      expect(mem_limit, name).toMatch(/^\d+[mg]$/);
      expect(logging, name).toEqual({ driver: 'json-file', options: { 'max-size': '10m', 'max-file': '5' } });
      expect(['root', '0', '0:0'], name).not.toContain(user);
      expect(security_opt, name).toEqual(['no-new-privileges:true']);
    }
    expect(service('postgres').user).toBe('postgres');
    expect(service('worker')).toMatchObject({ user: '1000:1000', read_only: true });
    expect(s.lastInstruction(stages.at(-1), 'USER')).toBe('1000:1000');
  });

  test('pins every image by its full version and its digest, and the server to that of the native rig', () => {
    const images = [...Object.values(services), ...stages].map(({ image }) => image);
    const foreign = new Set(images.filter((image) => !image.startsWith('agent-follow-up:')));
    for (const image of foreign) {
      expect(image).toMatch(/^[a-z-]+(\/[a-z-]+)?:v?\d+\.\d+(\.\d+)?(-[a-z0-9.-]+)?@sha256:[0-9a-f]{64}$/);
    }
    expect(foreign.size).toBe(7);
    const version = GO_SERVER_MODULE.newest.version.slice(1);
    expect(service('temporal').image).toMatch(new RegExp(`^temporalio/server:${version}@`));
    expect(service('temporal-schema').image).toMatch(new RegExp(`^temporalio/admin-tools:${version}@`));
    expect(service('temporal-namespace').image).toBe(service('temporal-schema').image);
  });

  test('names its image after this package and its version', () => {
    const { name, version } = JSON.parse(repositoryText('package.json')) as { name: string; version: string };
    const build = { context: '.', dockerfile: 'deploy/Dockerfile' };
    for (const each of ['worker', 'simulator']) {
      expect(service(each)).toMatchObject({ image: `${name}:${version}`, build });
    }
  });

  test('checks the health of what stays up, and waits for health or for the end of a one-time service', () => {
    for (const [name, { healthcheck }] of lasting) {
      if (name === 'worker') expect(s.lastInstruction(stages.at(-1), 'HEALTHCHECK')).toContain(':9464/healthz');
      else expect(healthcheck?.test[0], name).toBe('CMD');
    }
    for (const [name, { depends_on: dependencies = {} }] of Object.entries(services)) {
      for (const [needed, { condition }] of Object.entries(dependencies)) {
        const isLasting = lasting.some(([each]) => each === needed);
        const expected = isLasting ? 'service_healthy' : 'service_completed_successfully';
        expect(condition, `${name} needs ${needed}`).toBe(expected);
      }
    }
    expect(Object.keys(service('worker').depends_on ?? {})).toEqual(['temporal', 'temporal-namespace']);
  });

  test('publishes ports on loopback only, and those of several workers', () => {
    const ports = Object.values(services).flatMap((each) => each.ports ?? []);
    const others = ['3000:3000', '7233:7233', '8080:8080', '8233:8080', '9090:9090', '9464-9473:9464'];
    expect(ports.sort()).toEqual(others.map((each) => `127.0.0.1:${each}`));
    expect(text).not.toContain('container_name');
  });

  test('Prometheus scrapes every worker, and Grafana finds Prometheus and the dashboard', () => {
    const read = (path: string) => parse(repositoryText(path)) as Record<string, never>;
    const prometheus = read('deploy/prometheus/prometheus.yaml');
    const workers = [{ names: ['worker'], type: 'A', port: 9464 }];
    expect(prometheus['scrape_configs']).toMatchObject([{ dns_sd_configs: workers }]);
    const mounted = (name: string) => (service(name).volumes ?? []).map((each) => each.split(':').slice(0, 2));
    const targets = new Map(mounted('prometheus').map(([source = '', target = '']) => [target, source]));
    const [config = ''] = (service('prometheus').command ?? []).flatMap(
      (each) => each.split('--config.file=')[1] ?? [],
    );
    expect(targets.get(config)).toBe('./deploy/prometheus/prometheus.yaml');
    for (const file of prometheus['rule_files'] as unknown as string[]) {
      expect(targets.get(join(config, '..', file))).toBe(`./deploy/prometheus/${file}`);
    }
    const { datasources } = read('deploy/grafana/datasources.yaml');
    expect(datasources).toMatchObject([{ type: 'prometheus', url: 'http://prometheus:9090' }]);
    const [[, dashboard = ''] = []] = mounted('grafana').filter(([source = '']) => source.endsWith('/dashboard.json'));
    const { providers } = read('deploy/grafana/dashboards.yaml');
    expect(providers).toMatchObject([{ options: { path: join(dashboard, '..') } }]);
  });

  test('contains no secret: the password comes from the environment, the API key from a file', () => {
    for (const line of text.split('\n').filter((each) => /PASSWORD:|PWD:|API_KEY:/.test(each))) {
      expect(line).toMatch(/: \$\{[A-Z_]+:\?/);
    }
    expect(service('worker').environment?.['AGENT_JOBS_API_KEY_FILE']).toMatch(/^\$\{\w+-\/run\/keys\/api-key\}$/);
    expect(text).not.toContain(simulatorKey);
    expect(repositoryText('deploy/simulator-keys/api-key').trim()).toBe(simulatorKey);
  });

  test('gives a worker settings that it knows, and time to finish its sends', () => {
    const environment = workerEnvironment(s.simulatorEnvironment);
    const keyFile = repositoryPath('deploy/simulator-keys/api-key');
    const config = loadConfig({ ...environment, AGENT_JOBS_API_KEY_FILE: keyFile });
    expect(config).toMatchObject({
      temporal: { address: 'temporal:7233', namespace: 'default' },
      agentJobs: { baseUrl: 'http://simulator:8080' },
      status: { host: '0.0.0.0', port: 9464 },
    });
    expect(Object.keys(environment).filter((name) => !s.knownSettings.has(name))).toEqual([]);
    expect(parseDurationMs(service('worker').stop_grace_period)).toBeGreaterThan(shutdownForceMs(config));
  });

  test('passes on every setting of a worker that is not fixed here', () => {
    expect(s.knownSettings.size).toBeGreaterThan(30);
    const { environment = {} } = service('worker');
    /** Settings that nobody can set from outside, with the reason. */
    const fixed: [names: RegExp, reason: string][] = [
      [/^TEMPORAL_(?!DEPLOYMENT_|WORKER_)/, 'the server of this file asks for neither a certificate nor a key'],
      [/^AGENT_JOBS_API_KEY$/, 'a key in the environment shows in "docker inspect"'],
      [/^FOLLOW_UP_STATUS_ADDRESS$/, 'the published port leads there'],
    ];
    for (const name of [...s.knownSettings].filter((each) => !fixed.some(([names]) => names.test(each)))) {
      expect(environment[name], name).toMatch(new RegExp(`^\\$\\{${name}(:?-.*|:\\?.*)\\}$`));
    }
  });

  test('accepts an API key for each project instead of one for all', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'keys-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    const keysFile = join(directory, 'api-keys.json');
    await writeFile(keysFile, JSON.stringify({ demo: 'adm_a-key-for-demo' }), { mode: 0o600 });
    const keys = { AGENT_JOBS_API_KEY_FILE: '', AGENT_JOBS_API_KEYS_FILE: keysFile };
    const given = { AGENT_JOBS_BASE_URL: 'https://api.example.com', FOLLOW_UP_BUDGET_LIMIT: '50', ...keys };
    const config = loadConfig(workerEnvironment(given));
    expect(config.agentJobs.apiKeys).toEqual({ keysFile });
    expect(config.budget.limit).toBe(50);
  });

  test('its scripts have the line ends of a shell, also in a clone on Windows', () => {
    expect(repositoryText('.gitattributes')).toMatch(/^\* text=auto eol=lf$/m);
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
    const [, source, variable = '', target] = /^(\$\{(\w+):\?[^}]*\}):([^:]+):ro$/.exec(mount) ?? [];
    expect(source).toBeDefined();
    expect(service('worker').environment?.['AGENT_JOBS_API_KEY_FILE']).toContain(`-${target}/api-key}`);
    expect((await stat(repositoryPath(s.simulatorEnvironment[variable] ?? ''))).isDirectory()).toBe(true);
  });
});
