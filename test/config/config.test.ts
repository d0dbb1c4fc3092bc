import { chmodSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { ConfigError, loadClientConfig, loadConfig, loadTemporalConfig } from '../../src/config/index.js';
import { createApiKeys } from '../../src/agent-jobs/index.js';
import { projectBudgetInputSchema } from '../../src/contract/protocol.js';

const SECRET = 'key-live-a1b2c3d4e5f6';
const good = { AGENT_JOBS_BASE_URL: 'https://api.example.com', AGENT_JOBS_API_KEY: SECRET };
const directory = mkdtempSync(join(tmpdir(), 'config-test-'));

function file(name: string, content: string | Buffer): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}

function issuesOf(load: () => unknown): Record<string, string> {
  try {
    load();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    expect(error.message).not.toContain(SECRET);
    return Object.fromEntries(error.issues.map(({ name, message }) => [name, message]));
  }
  return {};
}

describe('the worker configuration', () => {
  test('has the documented defaults', () => {
    const config = loadConfig(good);
    expect(config).toMatchObject({
      temporal: { address: 'localhost:7233', namespace: 'default' },
      agentJobs: { baseUrl: 'https://api.example.com', getTimeoutMs: 5_000, sendTimeoutMs: 30_000 },
      taskQueue: 'follow-ups',
      budget: { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 },
      leaseMs: 60_000,
      drainMs: 120_000,
      status: { host: '127.0.0.1', port: 9464 },
      logging: { level: 'info', format: 'json' },
    });
    expect(config.agentJobs.apiKeys.key?.()).toBe(SECRET);
  });

  test('accepts a version only as a deployment name together with a build id', () => {
    const name = { TEMPORAL_DEPLOYMENT_NAME: 'agent-follow-up' };
    const build = { TEMPORAL_WORKER_BUILD_ID: '0.1.0' };
    expect(loadConfig(good).version).toBeUndefined();
    expect(loadConfig({ ...good, ...name, ...build }).version).toEqual({
      deploymentName: 'agent-follow-up',
      buildId: '0.1.0',
    });
    expect(issuesOf(() => loadConfig({ ...good, ...name }))).toEqual({
      TEMPORAL_DEPLOYMENT_NAME: expect.stringContaining('needs TEMPORAL_WORKER_BUILD_ID') as string,
    });
    expect(issuesOf(() => loadConfig({ ...good, ...build }))).toEqual({
      TEMPORAL_WORKER_BUILD_ID: expect.stringContaining('needs TEMPORAL_DEPLOYMENT_NAME') as string,
    });
    expect(issuesOf(() => loadConfig({ ...good, ...build, TEMPORAL_DEPLOYMENT_NAME: 'a:b' }))).toMatchObject({
      TEMPORAL_DEPLOYMENT_NAME: expect.stringContaining('must be at most 200') as string,
    });
  });

  test('treats an empty variable as not set', () => {
    const empty = { TEMPORAL_ADDRESS: '', TEMPORAL_TLS: '', FOLLOW_UP_BUDGET_LIMIT: ' ', AGENT_JOBS_API_KEY_FILE: '' };
    expect(loadConfig({ ...good, ...empty })).toMatchObject({
      temporal: { address: 'localhost:7233' },
      budget: { limit: 100 },
    });
  });

  test('accepts durations as text with a unit and as whole milliseconds', () => {
    const config = loadConfig({ ...good, FOLLOW_UP_DRAIN: '1500', FOLLOW_UP_BUDGET_WINDOW: '1.5m' });
    expect(config.drainMs).toBe(1_500);
    expect(config.budget.windowMs).toBe(90_000);
  });

  test('names every bad setting in one error', () => {
    const issues = issuesOf(() =>
      loadConfig({
        AGENT_JOBS_BASE_URL: 'http://api.example.com',
        AGENT_JOBS_API_KEYS_FILE: join(directory, 'missing.json'),
        AGENT_JOBS_ALLOW_HTTP: 'yes',
        AGENT_JOBS_GET_TIMEOUT: '8s',
        FOLLOW_UP_SEND_TIMEOUT: 'soon',
        FOLLOW_UP_BUDGET_LIMIT: '10',
        FOLLOW_UP_BUDGET_RESERVE: '10',
        FOLLOW_UP_BUDGET_WINDOW: '-1h',
        FOLLOW_UP_DRAIN: '2h',
        FOLLOW_UP_MARGIN: '6m',
        FOLLOW_UP_TASK_QUEUE: 'q'.repeat(201),
        FOLLOW_UP_STATUS_ADDRESS: '9464',
        FOLLOW_UP_LOG_LEVEL: 'loud',
        FOLLOW_UP_LOG_FORMAT: 'xml',
        TEMPORAL_ADDRESS: 'http://localhost:7233',
      }),
    );
    expect(Object.keys(issues).sort()).toEqual([
      'AGENT_JOBS_ALLOW_HTTP',
      'AGENT_JOBS_API_KEYS_FILE',
      'AGENT_JOBS_BASE_URL',
      'AGENT_JOBS_GET_TIMEOUT',
      'FOLLOW_UP_BUDGET_RESERVE',
      'FOLLOW_UP_BUDGET_WINDOW',
      'FOLLOW_UP_DRAIN',
      'FOLLOW_UP_LOG_FORMAT',
      'FOLLOW_UP_LOG_LEVEL',
      'FOLLOW_UP_MARGIN',
      'FOLLOW_UP_SEND_TIMEOUT',
      'FOLLOW_UP_STATUS_ADDRESS',
      'FOLLOW_UP_TASK_QUEUE',
      'TEMPORAL_ADDRESS',
    ]);
    expect(issues['FOLLOW_UP_LOG_LEVEL']).toBe('must be one of trace, debug, info, warn, error, silent (given "loud")');
    expect(issues['AGENT_JOBS_GET_TIMEOUT']).toBe('must be from 100ms to 7s (given "8s")');
  });

  test.each([
    ['0', false],
    ['1', true],
    ['10000', true],
    ['10001', false],
    ['1e3', false],
    ['2.5', false],
    ['0x10', false],
  ])('a limit of %s is allowed: %s', (limit, allowed) => {
    const issues = issuesOf(() => loadConfig({ ...good, FOLLOW_UP_BUDGET_LIMIT: limit }));
    expect(issues['FOLLOW_UP_BUDGET_LIMIT'] === undefined).toBe(allowed);
  });

  test('accepts the capacity of a worker, and names what is out of range', () => {
    const env = {
      FOLLOW_UP_CACHED_WORKFLOWS: '10',
      FOLLOW_UP_WORKFLOW_TASKS: '2',
      FOLLOW_UP_ACTIVITIES: '10000',
      FOLLOW_UP_WATCHES: '0',
      FOLLOW_UP_POLLERS: '200',
    };
    const capacity = { cachedWorkflows: 10, workflowTasks: 2, activities: 10_000, watches: 0, pollers: 200 };
    expect(loadConfig({ ...good, ...env }).capacity).toEqual(capacity);
    const bad = { FOLLOW_UP_CACHED_WORKFLOWS: '0', FOLLOW_UP_WATCHES: '100001', FOLLOW_UP_POLLERS: '1' };
    expect(issuesOf(() => loadConfig({ ...good, ...bad }))).toEqual({
      FOLLOW_UP_CACHED_WORKFLOWS: 'must be a whole number from 1 to 100000 (given "0")',
      FOLLOW_UP_WATCHES: 'must be a whole number from 0 to 100000 (given "100001")',
      FOLLOW_UP_POLLERS: 'must be a whole number from 2 to 200 (given "1")',
    });
  });

  test('has the limit of a new budget as the ceiling, or a higher one', () => {
    expect(loadConfig({ ...good, FOLLOW_UP_BUDGET_LIMIT: '7' }).budget).toMatchObject({ limit: 7, maxLimit: 7 });
    expect(loadConfig({ ...good, FOLLOW_UP_BUDGET_MAX_LIMIT: '500' }).budget).toMatchObject({
      limit: 100,
      maxLimit: 500,
    });
    expect(issuesOf(() => loadConfig({ ...good, FOLLOW_UP_BUDGET_MAX_LIMIT: '99' }))).toEqual({
      FOLLOW_UP_BUDGET_MAX_LIMIT: 'must be at least FOLLOW_UP_BUDGET_LIMIT, 100 (given "99")',
    });
  });

  test('refuses a window that a budget would refuse', () => {
    const issues = issuesOf(() => loadConfig({ ...good, FOLLOW_UP_BUDGET_WINDOW: '999ms' }));
    expect(issues['FOLLOW_UP_BUDGET_WINDOW']).toMatch(/^must be from 1s to /);
    const { budget: settings } = loadConfig({ ...good, FOLLOW_UP_BUDGET_WINDOW: '1s', FOLLOW_UP_MARGIN: '5m' });
    expect(projectBudgetInputSchema.safeParse({ projectId: 'p', settings }).success).toBe(true);
  });

  test('serves all projects, or a list of them', () => {
    expect(loadConfig(good).projects).toBe('*');
    expect(loadConfig({ ...good, FOLLOW_UP_PROJECTS: '*' }).projects).toBe('*');
    expect(loadConfig({ ...good, FOLLOW_UP_PROJECTS: 'a, b-2,c' }).projects).toEqual(['a', 'b-2', 'c']);
    for (const bad of ['a,,b', 'a;b', 'a,*', '../x']) {
      expect(
        issuesOf(() => loadConfig({ ...good, FOLLOW_UP_PROJECTS: bad })),
        bad,
      ).toHaveProperty('FOLLOW_UP_PROJECTS');
    }
  });

  test('warns of key files that everybody can read, and of certificates that are not checked', () => {
    const path = file('open-key', SECRET);
    const warningsAt = (mode: number) => {
      chmodSync(path, mode);
      return loadConfig({ ...good, AGENT_JOBS_API_KEY_FILE: path }).warnings;
    };
    expect(warningsAt(0o640)).toEqual([]);
    expect(warningsAt(0o604)).toEqual([expect.stringMatching(/^AGENT_JOBS_API_KEY_FILE: every user .*open-key/)]);
    expect(loadConfig({ ...good, NODE_TLS_REJECT_UNAUTHORIZED: '0' }).warnings).toEqual([
      expect.stringMatching(/^NODE_TLS_REJECT_UNAUTHORIZED=0: certificates are not checked/),
    ]);
    expect(loadConfig({ ...good, NODE_TLS_REJECT_UNAUTHORIZED: '1' }).warnings).toEqual([]);
  });

  test('can turn the status server off, and accepts IPv6 addresses and port 0', () => {
    expect(loadConfig({ ...good, FOLLOW_UP_STATUS_ADDRESS: 'off' }).status).toBeUndefined();
    expect(loadConfig({ ...good, FOLLOW_UP_STATUS_ADDRESS: '[::1]:0' }).status).toEqual({ host: '::1', port: 0 });
    expect(issuesOf(() => loadConfig({ ...good, FOLLOW_UP_STATUS_ADDRESS: 'host:70000' }))).toHaveProperty(
      'FOLLOW_UP_STATUS_ADDRESS',
    );
  });
});

describe('the base URL', () => {
  test.each([
    ['https://api.example.com/prefix/', 'https://api.example.com/prefix'],
    ['http://localhost:8080', 'http://localhost:8080'],
    ['http://127.0.0.1:8080', 'http://127.0.0.1:8080'],
    ['http://127.8.9.10', 'http://127.8.9.10'],
    ['http://[::1]:8080', 'http://[::1]:8080'],
  ])('%s is accepted', (given, expected) => {
    expect(loadConfig({ ...good, AGENT_JOBS_BASE_URL: given }).agentJobs.baseUrl).toBe(expected);
  });

  test.each([
    'http://api.example.com',
    'http://localhost.example.com',
    'http://127.0.0.1.example.com',
    'http://0.0.0.0',
    'ftp://api.example.com',
    'api.example.com',
    'https://api.example.com?x=1',
  ])('%s is refused', (given) => {
    expect(issuesOf(() => loadConfig({ ...good, AGENT_JOBS_BASE_URL: given }))).toHaveProperty('AGENT_JOBS_BASE_URL');
  });

  test('is refused if it contains a password, and the password is not repeated', () => {
    expect(issuesOf(() => loadConfig({ ...good, AGENT_JOBS_BASE_URL: `https://me:${SECRET}@host` }))).toHaveProperty(
      'AGENT_JOBS_BASE_URL',
    );
  });

  test('may be plain http to any host if that is allowed', () => {
    const config = loadConfig({ ...good, AGENT_JOBS_BASE_URL: 'http://api.test', AGENT_JOBS_ALLOW_HTTP: 'true' });
    expect(config.agentJobs.baseUrl).toBe('http://api.test');
  });
});

describe('API keys', () => {
  const base = { AGENT_JOBS_BASE_URL: good.AGENT_JOBS_BASE_URL };

  test('are required', () => {
    expect(issuesOf(() => loadConfig(base))).toHaveProperty('AGENT_JOBS_API_KEY');
  });

  test('may come from files', () => {
    const keyFile = file('key', `${SECRET}\n`);
    const keysFile = file('keys.json', JSON.stringify({ 'project-1': SECRET }));
    expect(loadConfig({ ...base, AGENT_JOBS_API_KEY_FILE: keyFile }).agentJobs.apiKeys).toEqual({ keyFile });
    expect(loadConfig({ ...base, AGENT_JOBS_API_KEYS_FILE: keysFile }).agentJobs.apiKeys).toEqual({ keysFile });
  });

  test('may come from files with a byte order mark, which are read alike at the start and later', async () => {
    const keyFile = file('key-with-bom', `\ufeff${SECRET}\r\n`);
    const keysFile = file('keys-with-bom.json', `\ufeff${JSON.stringify({ 'project-1': SECRET })}\r\n`);
    for (const source of [{ AGENT_JOBS_API_KEY_FILE: keyFile }, { AGENT_JOBS_API_KEYS_FILE: keysFile }]) {
      const { keyFile: one, keysFile: many } = loadConfig({ ...base, ...source }).agentJobs.apiKeys;
      const keys = createApiKeys({ keyFile: one, keysFile: many });
      expect(await keys.problem()).toBeUndefined();
      expect(await keys.forProject('project-1')).toBe(SECRET);
    }
    for (const [name, text] of [
      ['utf-16', Buffer.from(`\ufeff${JSON.stringify({ p: SECRET })}`, 'utf16le')],
      ['no-break-space', Buffer.from(`\u00a0${JSON.stringify({ p: SECRET })}`)],
    ] as const) {
      const path = join(directory, name);
      writeFileSync(path, text);
      expect(
        issuesOf(() => loadConfig({ ...base, AGENT_JOBS_API_KEYS_FILE: path })),
        name,
      ).not.toEqual({});
      expect(await createApiKeys({ keysFile: path }).problem(), name).toBeDefined();
    }
  });

  test('are never shown if a value or a file is wrong', () => {
    const cases: [string, string][] = [
      ['AGENT_JOBS_API_KEY', `${SECRET}\r\nX-Injected: 1`],
      ['AGENT_JOBS_API_KEY', 'short'],
      ['AGENT_JOBS_API_KEY_FILE', file('two-lines', `${SECRET}\nand more`)],
      ['AGENT_JOBS_API_KEYS_FILE', file('no-json', `{ "p": "${SECRET}"`)],
      ['AGENT_JOBS_API_KEYS_FILE', file('bad-id', JSON.stringify({ 'a/b': SECRET }))],
      ['AGENT_JOBS_API_KEYS_FILE', file('list', JSON.stringify([SECRET]))],
      ['AGENT_JOBS_API_KEY_FILE', directory],
    ];
    for (const [name, value] of cases) {
      const issues = issuesOf(() => loadConfig({ ...base, [name]: value }));
      expect(Object.keys(issues), value).toEqual([name]);
      expect(issues[name]).not.toContain('short"');
    }
  });

  test('do not show when a configuration is inspected or written as JSON', () => {
    const config = loadConfig({ ...good, TEMPORAL_API_KEY: SECRET });
    expect(inspect(config, { depth: null, showHidden: true })).not.toContain(SECRET);
    expect(JSON.stringify(config)).not.toContain(SECRET);
  });
});

describe('the Temporal configuration', () => {
  const toml = file(
    'temporal.toml',
    [
      '[profile.default]',
      'address = "one.example.com:7233"',
      'namespace = "one"',
      '[profile.cloud]',
      'address = "two.example.com:7233"',
      'namespace = "two"',
      `api_key = "${SECRET}"`,
    ].join('\n'),
  );

  test('may have a byte order mark', () => {
    const path = file('with-bom.toml', '\ufeff[profile.default]\r\naddress = "bom.example.com:7233"\r\n');
    expect(loadTemporalConfig({ TEMPORAL_CONFIG_FILE: path })).toMatchObject({ address: 'bom.example.com:7233' });
  });

  test('comes from profiles in the configuration file, which variables override', () => {
    expect(loadTemporalConfig({ TEMPORAL_CONFIG_FILE: toml })).toMatchObject({
      address: 'one.example.com:7233',
      namespace: 'one',
    });
    const cloud = loadTemporalConfig({
      TEMPORAL_CONFIG_FILE: toml,
      TEMPORAL_PROFILE: 'cloud',
      TEMPORAL_NAMESPACE: 'three',
    });
    expect(cloud).toMatchObject({ address: 'two.example.com:7233', namespace: 'three' });
    expect(cloud.connectionOptions()).toMatchObject({ tls: true, apiKey: SECRET });
  });

  test('reads its API key from a file, which comes before TEMPORAL_API_KEY', () => {
    const keyFile = file('temporal-key', `${SECRET}\n`);
    const env = { TEMPORAL_API_KEY_FILE: keyFile, TEMPORAL_API_KEY: 'key-of-the-environment' };
    expect(loadTemporalConfig(env).connectionOptions()).toMatchObject({ apiKey: SECRET });
    expect(issuesOf(() => loadTemporalConfig({ ...env, TEMPORAL_ADDRESS: 'far:7233', TEMPORAL_TLS: 'false' }))).toEqual(
      { TEMPORAL_TLS: expect.stringContaining('must be on') as string },
    );
    for (const [name, text] of [
      ['two-keys', `${SECRET}\n${SECRET}`],
      ['no-key', ''],
    ] as const) {
      expect(issuesOf(() => loadTemporalConfig({ TEMPORAL_API_KEY_FILE: file(name, text) }))).toEqual({
        TEMPORAL_API_KEY_FILE: expect.stringContaining('must hold one key') as string,
      });
    }
    expect(issuesOf(() => loadTemporalConfig({ TEMPORAL_API_KEY_FILE: join(directory, 'gone') }))).toEqual({
      TEMPORAL_API_KEY_FILE: expect.stringContaining('cannot be read: ENOENT') as string,
    });
  });

  test('names every bad setting if a path leads through a file', () => {
    const path = join(file('no-directory', ''), 'key');
    const env = { AGENT_JOBS_API_KEY_FILE: path, FOLLOW_UP_DATA_CONVERTER: path, FOLLOW_UP_LOG_LEVEL: 'loud' };
    expect(issuesOf(() => loadConfig(env))).toMatchObject({
      AGENT_JOBS_API_KEY_FILE: expect.stringContaining('cannot be read: ENOTDIR') as string,
      FOLLOW_UP_DATA_CONVERTER: expect.stringContaining('must be the path') as string,
      FOLLOW_UP_LOG_LEVEL: expect.any(String) as string,
    });
  });

  test('reads the file of its API key again when it is asked to', () => {
    const config = loadTemporalConfig({ TEMPORAL_API_KEY_FILE: file('rotated-key', 'key-of-yesterday') });
    file('rotated-key', 'key-of-today\n');
    expect(config.connectionOptions().apiKey).toBe('key-of-yesterday');
    expect(config.readKeyFile?.()).toBe('key-of-today');
    file('rotated-key', `${SECRET} ${SECRET}`);
    expect(issuesOf(() => config.readKeyFile?.())).toHaveProperty('TEMPORAL_API_KEY_FILE');
    expect(loadTemporalConfig({ TEMPORAL_API_KEY: SECRET }).readKeyFile).toBeUndefined();
  });

  test('takes a switch in any case, and refuses what is neither true nor false', () => {
    for (const on of ['TRUE', 'True', '1']) {
      expect(loadTemporalConfig({ TEMPORAL_TLS: on }).connectionOptions().tls, on).toBeTruthy();
    }
    expect(loadTemporalConfig({ TEMPORAL_TLS: 'FALSE' }).connectionOptions().tls).toBe(false);
    expect(issuesOf(() => loadTemporalConfig({ TEMPORAL_TLS: 'yes' }))).toEqual({
      TEMPORAL_TLS: 'must be true or false (given "yes")',
    });
  });

  test('does not need the default configuration file, readable or not, where the address is set', () => {
    // The file is a directory, which nobody can read, whoever runs the test.
    const home = mkdtempSync(join(tmpdir(), 'config-home-'));
    mkdirSync(join(home, 'temporalio', 'temporal.toml'), { recursive: true });
    const env = { XDG_CONFIG_HOME: home };
    expect(loadTemporalConfig({ ...env, TEMPORAL_ADDRESS: 'one.example.com' }).address).toBe('one.example.com:7233');
    expect(issuesOf(() => loadTemporalConfig(env))['TEMPORAL_*']).toBe('the configuration file cannot be read: EISDIR');
  });

  test('fills in the port', () => {
    expect(loadTemporalConfig({ TEMPORAL_ADDRESS: 'temporal' }).address).toBe('temporal:7233');
    expect(loadTemporalConfig({ TEMPORAL_ADDRESS: '[::1]' }).address).toBe('[::1]:7233');
  });

  test('refuses an API key over plaintext to another machine', () => {
    const plaintext = { TEMPORAL_API_KEY: SECRET, TEMPORAL_TLS: 'false' };
    expect(issuesOf(() => loadTemporalConfig({ ...plaintext, TEMPORAL_ADDRESS: 'far:7233' }))).toHaveProperty(
      'TEMPORAL_TLS',
    );
    expect(
      issuesOf(() =>
        loadTemporalConfig({ TEMPORAL_ADDRESS: 'far:7233', TEMPORAL_GRPC_META_AUTHORIZATION: `Bearer ${SECRET}` }),
      ),
    ).toHaveProperty('TEMPORAL_TLS');
    expect(issuesOf(() => loadTemporalConfig(plaintext))).toEqual({});
  });

  test('leaves out the byte order mark of a certificate or key, and refuses one in UTF-16', () => {
    const read = (name: string) => readFileSync(join(import.meta.dirname, '../agent-jobs/tls', name));
    const marked = (name: string) => file(`marked-${name}`, `\uFEFF${read(name).toString()}`);
    const environment = {
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: marked('ca.pem'),
      TEMPORAL_TLS_CLIENT_CERT_PATH: marked('server.pem'),
      TEMPORAL_TLS_CLIENT_KEY_PATH: marked('server.key'),
    };
    expect(loadTemporalConfig(environment).connectionOptions().tls).toMatchObject({
      serverRootCACertificate: new Uint8Array(read('ca.pem')),
      clientCertPair: { crt: new Uint8Array(read('server.pem')), key: new Uint8Array(read('server.key')) },
    });
    // Text around a certificate may be in any encoding.
    const latin1 = file('latin1.pem', Buffer.concat([Buffer.from([0x23, 0xe9, 0x0a]), read('ca.pem')]));
    expect(issuesOf(() => loadTemporalConfig({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: latin1 }))).toEqual({});
    const utf16 = file('utf16.pem', Buffer.from(`\uFEFF${read('ca.pem').toString()}`, 'utf16le'));
    expect(issuesOf(() => loadTemporalConfig({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: utf16 }))).toEqual({
      TEMPORAL_TLS_SERVER_CA_CERT_PATH:
        'must name a file that holds a certificate in PEM: it is UTF-16; the file must be UTF-8',
    });
  });

  test('refuses half a certificate, a missing file, and an unknown profile', () => {
    const certificate = file('client.pem', 'x');
    expect(issuesOf(() => loadTemporalConfig({ TEMPORAL_TLS_CLIENT_CERT_PATH: certificate }))).toHaveProperty(
      'TEMPORAL_TLS_CLIENT_KEY_PATH',
    );
    expect(issuesOf(() => loadTemporalConfig({ TEMPORAL_CONFIG_FILE: join(directory, 'none.toml') }))).toHaveProperty(
      'TEMPORAL_CONFIG_FILE',
    );
    expect(
      issuesOf(() => loadTemporalConfig({ TEMPORAL_CONFIG_FILE: toml, TEMPORAL_PROFILE: 'gone' }))['TEMPORAL_PROFILE'],
    ).toContain("Profile 'gone' not found");
  });

  test('does not quote an invalid configuration file, because it may contain a key', () => {
    const broken = file('broken.toml', `[profile.default]\napi_key = ${SECRET}\n`);
    const issues = issuesOf(() => loadTemporalConfig({ TEMPORAL_CONFIG_FILE: broken }));
    expect(issues['TEMPORAL_*']).toBe('the configuration file is not TOML, see line 2');
  });

  test('gives commands the task queue and the settings of a new budget without settings of the service', () => {
    expect(loadClientConfig({})).toMatchObject({ taskQueue: 'follow-ups', budget: { limit: 100 } });
    const env = { FOLLOW_UP_TASK_QUEUE: 'mine', FOLLOW_UP_BUDGET_LIMIT: '7' };
    expect(loadClientConfig(env)).toMatchObject({ taskQueue: 'mine', budget: { limit: 7 } });
  });

  test('names every bad setting of a command at once', () => {
    const env = { TEMPORAL_ADDRESS: 'no port:here', FOLLOW_UP_TASK_QUEUE: '/_sys/x', FOLLOW_UP_BUDGET_LIMIT: '0' };
    expect(Object.keys(issuesOf(() => loadClientConfig(env))).sort()).toEqual([
      'FOLLOW_UP_BUDGET_LIMIT',
      'FOLLOW_UP_TASK_QUEUE',
      'TEMPORAL_ADDRESS',
    ]);
  });
});
