import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/index.js';
import { parseDurationMs } from '../../src/contract/index.js';
import { simulatorOptionsSchema } from '../../src/simulator/index.js';
import { shutdownForceMs } from '../../src/worker/worker-options.js';
import { GO_SERVER_MODULE } from '../support/pins.js';
import {
  type ComposeService,
  composeServices as services,
  dockerStages as stages,
  imageName,
  knownSettings,
  lastInstruction,
  repositoryPath,
  repositoryText,
  simulatorEnvironment,
} from './support.js';

const text = repositoryText('docker-compose.yml');
const image = stages.at(-1);
/** The services that stay up. The others do one thing and end. */
const lasting = Object.keys(services).filter((name) => services[name]?.restart === 'unless-stopped');

function service(name: string): ComposeService {
  const found = services[name];
  if (found === undefined) throw new Error(`docker-compose.yml has no service ${name}`);
  return found;
}
const workerSettings = service('worker').environment ?? {};

/** The worker's environment, with `${NAME:-default}` (also for empty values) and `${NAME-default}` resolved as in Compose. */
function workerEnvironment(given: Record<string, string>): Record<string, string> {
  const resolve = (value: string) =>
    value.replace(/\$\{(\w+)(?:(:?)[-?]([^}]*))?\}/g, (_, name: string, colon: string, fallback = '') => {
      const set = given[name];
      return set === undefined || (colon === ':' && set === '') ? String(fallback) : set;
    });
  return Object.fromEntries(Object.entries(workerSettings).map(([name, value]) => [name, resolve(value)]));
}

describe('docker-compose.yml', () => {
  test('limits the memory and the log of every service, and runs nothing as root or with new privileges', () => {
    for (const [name, { mem_limit, logging, user, security_opt }] of Object.entries(services)) {
      expect(mem_limit, name).toMatch(/^\d+[mg]$/);
      expect(logging, name).toEqual({ driver: 'json-file', options: { 'max-size': '10m', 'max-file': '5' } });
      expect(['root', '0', '0:0'], name).not.toContain(user);
      expect(security_opt, name).toEqual(['no-new-privileges:true']);
    }
    expect(service('worker')).toMatchObject({ user: '1000:1000', read_only: true });
    expect(lastInstruction(image, 'USER')).toBe('1000:1000');
  });

  test('pins foreign images by version and digest, the server to the version of the tests, and its own to this one', () => {
    const images = [...Object.values(services), ...stages].map((each) => each.image);
    for (const foreign of images.filter((each) => each !== imageName)) {
      expect(foreign).toMatch(/^[a-z-]+(\/[a-z-]+)?:v?\d+\.\d+(\.\d+)?(-[a-z0-9.-]+)?@sha256:[0-9a-f]{64}$/);
    }
    const version = GO_SERVER_MODULE.newest.version.slice(1);
    expect(service('temporal').image).toMatch(new RegExp(`^temporalio/server:${version}@`));
    expect(service('temporal-schema').image).toMatch(new RegExp(`^temporalio/admin-tools:${version}@`));
    const build = { context: '.', dockerfile: 'deploy/Dockerfile' };
    for (const name of ['worker', 'simulator']) expect(service(name)).toMatchObject({ image: imageName, build });
  });

  test('checks the health of what stays up, and waits for health or for the end of a one-time service', () => {
    const unchecked = lasting.filter((name) => services[name]?.healthcheck?.test[0] !== 'CMD');
    expect(unchecked).toEqual(['worker']);
    expect(lastInstruction(image, 'HEALTHCHECK')).toContain(':9464/healthz');
    for (const [name, { depends_on: dependencies = {} }] of Object.entries(services)) {
      for (const [needed, { condition }] of Object.entries(dependencies)) {
        const expected = lasting.includes(needed) ? 'service_healthy' : 'service_completed_successfully';
        expect(condition, `${name} needs ${needed}`).toBe(expected);
      }
    }
    expect(Object.keys(service('worker').depends_on ?? {})).toEqual(['temporal', 'temporal-namespace']);
  });

  test('publishes ports on loopback only, with room for several workers', () => {
    const ports = Object.values(services).flatMap((each) => each.ports ?? []);
    expect(ports.filter((each) => !each.startsWith('127.0.0.1:'))).toEqual([]);
    expect(service('worker').ports).toEqual(['127.0.0.1:9464-9473:9464']);
    expect(text).not.toContain('container_name');
  });

  test('mounts existing files with which Prometheus scrapes every worker and Grafana finds Prometheus', async () => {
    const mounted = (name: string) => (service(name).volumes ?? []).map((each) => each.split(':'));
    for (const [source = '', , mode] of Object.keys(services).flatMap(mounted)) {
      if (!source.startsWith('.')) continue;
      expect((await stat(repositoryPath(source))).isFile(), source).toBe(true);
      expect(mode).toBe('ro');
    }
    const read = (path: string) => parse(repositoryText(path)) as Record<string, unknown>;
    const prometheus = read('deploy/prometheus/prometheus.yaml');
    const workers = [{ names: ['worker'], type: 'A', port: 9464 }];
    expect(prometheus).toMatchObject({ scrape_configs: [{ dns_sd_configs: workers }], rule_files: ['alerts.yaml'] });
    const targets = mounted('prometheus').map(([source = '', target = '']) => [source.split('/').at(-1), target]);
    const etc = (file: string) => [file, `/etc/prometheus/${file}`];
    expect(targets).toEqual(expect.arrayContaining([etc('prometheus.yaml'), etc('alerts.yaml')]));
    expect(service('prometheus').command).toContain('--config.file=/etc/prometheus/prometheus.yaml');
    const datasources = [{ type: 'prometheus', url: 'http://prometheus:9090' }];
    expect(read('deploy/grafana/datasources.yaml')).toMatchObject({ datasources });
    const [[, dashboard = ''] = []] = mounted('grafana').filter(([source = '']) => source.endsWith('/dashboard.json'));
    const providers = [{ options: { path: join(dashboard, '..') } }];
    expect(read('deploy/grafana/dashboards.yaml')).toMatchObject({ providers });
  });

  test('contains no secret: the password comes from the environment, the API key from a file', async () => {
    for (const line of text.split('\n').filter((each) => /PASSWORD:|PWD:|API_KEY:/.test(each))) {
      expect(line).toMatch(/: \$\{[A-Z_]+:\?/);
    }
    const { apiKey } = simulatorOptionsSchema.parse({});
    expect(text).not.toContain(apiKey);
    expect(repositoryText('deploy/simulator-keys/api-key').trim()).toBe(apiKey);
    // The directory is mounted, so a key that is renamed into place is used without a restart.
    const [mount = ''] = service('worker').volumes ?? [];
    const [, variable = '', target] = /^\$\{(\w+):\?[^}]*\}:([^:]+):ro$/.exec(mount) ?? [];
    expect(workerSettings['AGENT_JOBS_API_KEY_FILE']).toBe(`\${AGENT_JOBS_API_KEY_FILE-${target}/api-key}`);
    expect((await stat(repositoryPath(simulatorEnvironment[variable] ?? ''))).isDirectory()).toBe(true);
  });

  test('gives a worker settings that it knows, and time to finish its sends', () => {
    const environment = workerEnvironment(simulatorEnvironment);
    const keyFile = repositoryPath('deploy/simulator-keys/api-key');
    const config = loadConfig({ ...environment, AGENT_JOBS_API_KEY_FILE: keyFile });
    expect(config).toMatchObject({
      temporal: { address: 'temporal:7233', namespace: 'default' },
      agentJobs: { baseUrl: 'http://simulator:8080' },
      status: { host: '0.0.0.0', port: 9464 },
    });
    expect(Object.keys(environment).filter((name) => !knownSettings.has(name))).toEqual([]);
    expect(parseDurationMs(service('worker').stop_grace_period)).toBeGreaterThan(shutdownForceMs(config));
  });

  test('passes on every setting of a worker that is not fixed here', () => {
    expect(knownSettings.size).toBeGreaterThan(30);
    /** Settings that nobody can set from outside, with the reason. */
    const fixed: [names: RegExp, reason: string][] = [
      [/^TEMPORAL_(?!DEPLOYMENT_|WORKER_)/, 'the server of this file asks for neither a certificate nor a key'],
      [/^(AGENT_JOBS_API_KEY|FOLLOW_UP_WEBHOOKS)$/, 'a secret in the environment shows in "docker inspect"'],
      [/^FOLLOW_UP_STATUS_ADDRESS$/, 'the published port leads there'],
    ];
    // Somebody who sets one of them in .env would wonder why it does nothing.
    const guide = repositoryText('docs/how-to/containers.md');
    for (const name of ['AGENT_JOBS_API_KEY', 'FOLLOW_UP_WEBHOOKS', 'FOLLOW_UP_STATUS_ADDRESS'])
      expect(guide).toMatch(new RegExp(`except three\\.[^\n]*\`${name}\``));
    expect(guide).toContain('FOLLOW_UP_WEBHOOKS_FILE=/run/keys/webhooks.json');
    for (const name of [...knownSettings].filter((each) => !fixed.some(([names]) => names.test(each)))) {
      expect(workerSettings[name], name).toMatch(new RegExp(`^\\$\\{${name}(:?-.*|:\\?.*)\\}$`));
    }
  });

  test('accepts an API key for each project instead of one for all', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'keys-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    const keysFile = join(directory, 'api-keys.json');
    await writeFile(keysFile, JSON.stringify({ demo: 'adm_a-key-for-demo' }), { mode: 0o600 });
    const keys = { AGENT_JOBS_API_KEY_FILE: '', AGENT_JOBS_API_KEYS_FILE: keysFile };
    const config = loadConfig(workerEnvironment({ AGENT_JOBS_BASE_URL: 'https://api.example.com', ...keys }));
    expect(config.agentJobs.apiKeys).toEqual({ keysFile });
  });
});
