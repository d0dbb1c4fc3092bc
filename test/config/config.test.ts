import { chmodSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { createApiKeys } from '../../src/agent-jobs/index.js';
import { ConfigError, loadClientConfig, loadConfig, loadTemporalConfig } from '../../src/config/index.js';
import { projectBudgetInputSchema } from '../../src/protocol/index.js';
import { openTargets } from '../../src/webhooks/targets.js';

type Env = Record<string, string>;
const SECRET = 'key-live-a1b2c3d4e5f6';
const base = { AGENT_JOBS_BASE_URL: 'https://api.example.com' };
const good = { ...base, AGENT_JOBS_API_KEY: SECRET };
const directory = mkdtempSync(join(tmpdir(), 'config-test-'));

function file(name: string, content: string | Buffer): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}

/** What is wrong, by setting. No message may show the secret. */
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
const issues = (env: Env) => issuesOf(() => loadConfig({ ...good, ...env }));
const temporalIssues = (env: Env) => issuesOf(() => loadTemporalConfig(env));

describe('webhook targets', () => {
  const WEBHOOK_SECRET = `whsec_${Buffer.alloc(24, 'x').toString('base64')}`;
  const targets = (url: string, ...secrets: string[]) => JSON.stringify({ ci: { url, secrets } });
  test('may come from a variable or a file, and show no secret', async () => {
    const text = targets('http://[::1]:8080/hook?key=x', WEBHOOK_SECRET);
    const config = loadConfig({ ...good, FOLLOW_UP_WEBHOOKS: text });
    expect(config.webhooks.targets?.().get('ci')?.url.href).toBe('http://[::1]:8080/hook?key=x');
    expect(inspect(config, { depth: 9 })).not.toContain(WEBHOOK_SECRET);
    const path = file('webhooks.json', text);
    const read = openTargets(loadConfig({ ...good, FOLLOW_UP_WEBHOOKS_FILE: path }).webhooks, () => undefined);
    expect((await read()).get('ci')?.secrets).toHaveLength(1);
    writeFileSync(path, targets('https://a.example', WEBHOOK_SECRET, WEBHOOK_SECRET));
    expect((await read()).get('ci')?.secrets).toHaveLength(2);
    expect(issues({ FOLLOW_UP_WEBHOOKS: text, FOLLOW_UP_WEBHOOKS_FILE: path })).toEqual({
      FOLLOW_UP_WEBHOOKS_FILE: 'excludes FOLLOW_UP_WEBHOOKS',
    });
  });

  test('are refused if their file was never valid, and stay in use if it is no longer valid', async () => {
    const path = file('webhooks.json', '{');
    const problems: (string | undefined)[] = [];
    const read = openTargets({ targets: undefined, file: path }, (_file, problem) => problems.push(problem));
    await expect(read()).rejects.toThrow(`${path}: must hold JSON`);
    writeFileSync(path, targets('https://a.example', WEBHOOK_SECRET));
    expect([...(await read()).keys()]).toEqual(['ci']);
    writeFileSync(path, '{');
    expect([...(await read()).keys()]).toEqual(['ci']);
    expect(problems).toEqual([expect.stringContaining('must hold'), undefined, expect.stringContaining('must hold')]);
  });

  test.each([
    ['their text is not JSON', '{', 'must hold JSON, { "name": { "url": "https://…", "secrets": ["whsec_…"] } }'],
    [
      'a URL has http and another host',
      targets('http://a.example', WEBHOOK_SECRET),
      'ci.url: must be a URL with https',
    ],
    ['a URL has a password', targets('https://u:p@a.example', WEBHOOK_SECRET), 'ci.url: must be a URL with https'],
    ['a target has no secret', targets('https://a.example'), 'ci.secrets: '],
    [
      'a secret is too short',
      targets('https://a.example', 'whsec_c2hvcnQ='),
      'ci.secrets.0: must be whsec_ and 24 to 64',
    ],
    ['a name has a slash', JSON.stringify({ 'given/b': {} }), 'a name is not 1 to 64 letters, digits, _ or -'],
    [
      'a field is unknown',
      JSON.stringify({ ci: { url: 'https://a.example', secrets: [WEBHOOK_SECRET], given: 1 } }),
      'ci: has only the fields url and secrets',
    ],
  ])('are refused with the rule if %s', (_, text, rule) => {
    const [variable, ofFile] = [
      issues({ FOLLOW_UP_WEBHOOKS: text })['FOLLOW_UP_WEBHOOKS'],
      issues({ FOLLOW_UP_WEBHOOKS_FILE: file('bad.json', text) })['FOLLOW_UP_WEBHOOKS_FILE'],
    ];
    expect(variable).toContain(rule);
    expect(variable).not.toContain('given');
    expect(ofFile).toContain('the file must hold JSON');
  });
});

describe('the worker configuration', () => {
  const budget = { limit: 100, windowMs: 3_600_000, reserve: 0, marginMs: 2_000 };
  const version = { deploymentName: 'agent-follow-up', buildId: '0.1.0' };
  const capacity = { cachedWorkflows: 10, workflowTasks: 2, activities: 10_000, watches: 0, pollers: 200 };
  test.each<[what: string, env: Env, config: object]>([
    [
      'has the documented defaults',
      { TEMPORAL_ADDRESS: '', TEMPORAL_TLS: '', FOLLOW_UP_BUDGET_LIMIT: ' ', AGENT_JOBS_API_KEY_FILE: '' },
      {
        temporal: { address: 'localhost:7233', namespace: 'default' },
        agentJobs: { baseUrl: 'https://api.example.com', getTimeoutMs: 5_000, sendTimeoutMs: 30_000 },
        ...{ taskQueue: 'follow-ups', budget, leaseMs: 60_000, drainMs: 120_000, projects: '*' },
        ...{ status: { host: '127.0.0.1', port: 9464 }, logging: { level: 'info', format: 'json' }, warnings: [] },
      },
    ],
    [
      'accepts a version, durations as text and as milliseconds, and the capacity of a worker',
      {
        ...{ TEMPORAL_DEPLOYMENT_NAME: version.deploymentName, TEMPORAL_WORKER_BUILD_ID: version.buildId },
        ...{ FOLLOW_UP_DRAIN: '1500', FOLLOW_UP_BUDGET_WINDOW: '1.5m', FOLLOW_UP_SEND_TIMEOUT: '10s' },
        ...{ FOLLOW_UP_CACHED_WORKFLOWS: '10', FOLLOW_UP_WORKFLOW_TASKS: '2', FOLLOW_UP_ACTIVITIES: '10000' },
        ...{ FOLLOW_UP_WATCHES: '0', FOLLOW_UP_POLLERS: '200' },
      },
      { version, drainMs: 1_500, budget: { windowMs: 90_000 }, leaseMs: 40_000, capacity },
    ],
    [
      'has its own limit as the ceiling of budgets',
      { FOLLOW_UP_BUDGET_LIMIT: '7' },
      { budget: { limit: 7, maxLimit: 7 } },
    ],
    [
      'accepts a higher ceiling of budgets',
      { FOLLOW_UP_BUDGET_MAX_LIMIT: '500' },
      { budget: { limit: 100, maxLimit: 500 } },
    ],
    ['serves a list of projects', { FOLLOW_UP_PROJECTS: 'a, b-2,c' }, { projects: ['a', 'b-2', 'c'] }],
    ['can turn the status server off', { FOLLOW_UP_STATUS_ADDRESS: 'off' }, { status: undefined }],
    ['accepts IPv6 and port 0', { FOLLOW_UP_STATUS_ADDRESS: '[::1]:0' }, { status: { host: '::1', port: 0 } }],
    [
      'warns if it does not check certificates',
      { NODE_TLS_REJECT_UNAUTHORIZED: '0' },
      { warnings: [expect.stringMatching(/^NODE_TLS_REJECT_UNAUTHORIZED=0: certificates are not checked/)] },
    ],
  ])('%s', (_what, env, config) => {
    const loaded = loadConfig({ ...good, ...env });
    expect(loaded).toMatchObject(config);
    expect(loaded.agentJobs.apiKeys.key?.()).toBe(SECRET);
  });

  const wrong: [name: string, value: string, rule?: RegExp, more?: Env][] = [
    ['AGENT_JOBS_ALLOW_HTTP', 'yes', /^must be true or false/],
    ['AGENT_JOBS_GET_TIMEOUT', '8s', /^must be from 100ms to 7s \(given "8s"\)$/],
    ['FOLLOW_UP_SEND_TIMEOUT', 'soon', /given "soon"/],
    ['FOLLOW_UP_BUDGET_RESERVE', '10', /./, { FOLLOW_UP_BUDGET_LIMIT: '10' }],
    ['FOLLOW_UP_BUDGET_WINDOW', '999ms', /^must be from 1s to /],
    ['FOLLOW_UP_BUDGET_MAX_LIMIT', '99', /^must be at least FOLLOW_UP_BUDGET_LIMIT, 100 \(given "99"\)$/],
    ['FOLLOW_UP_LOG_LEVEL', 'loud', /^must be one of trace, debug, info, warn, error, silent \(given "loud"\)$/],
    ['FOLLOW_UP_CACHED_WORKFLOWS', '0', /^must be a whole number from 1 to 100000 \(given "0"\)$/],
    ['FOLLOW_UP_WATCHES', '100001', /^must be a whole number from 0 to 100000 /],
    ['TEMPORAL_TLS', 'yes', /^must be true or false \(given "yes"\)$/],
    ['TEMPORAL_DEPLOYMENT_NAME', 'name', /needs TEMPORAL_WORKER_BUILD_ID/],
    ['TEMPORAL_WORKER_BUILD_ID', 'build', /needs TEMPORAL_DEPLOYMENT_NAME/],
    ['TEMPORAL_DEPLOYMENT_NAME', 'a:b', /must be at most 200/, { TEMPORAL_WORKER_BUILD_ID: 'build' }],
    ['AGENT_JOBS_BASE_URL', `https://me:${SECRET}@host`, /user name/],
    ['FOLLOW_UP_BUDGET_LIMIT', '0'],
    ['FOLLOW_UP_BUDGET_LIMIT', '10001'],
    ['FOLLOW_UP_BUDGET_LIMIT', '1e3'],
    ['FOLLOW_UP_BUDGET_LIMIT', '2.5'],
    ['FOLLOW_UP_BUDGET_LIMIT', '0x10'],
    ['FOLLOW_UP_DRAIN', '2h'],
    ['FOLLOW_UP_MARGIN', '6m'],
    ['FOLLOW_UP_POLLERS', '1'],
    ['FOLLOW_UP_LOG_FORMAT', 'xml'],
    ['FOLLOW_UP_STATUS_ADDRESS', '9464'],
    ['FOLLOW_UP_STATUS_ADDRESS', 'host:70000'],
    ['FOLLOW_UP_TASK_QUEUE', 'q'.repeat(201)],
    ['FOLLOW_UP_PROJECTS', 'a,,b'],
    ['FOLLOW_UP_PROJECTS', 'a;b'],
    ['FOLLOW_UP_PROJECTS', 'a,*'],
    ['FOLLOW_UP_PROJECTS', '../x'],
    ['TEMPORAL_ADDRESS', 'http://localhost:7233'],
    ['AGENT_JOBS_BASE_URL', 'http://api.example.com'],
    ['AGENT_JOBS_BASE_URL', 'http://localhost.example.com'],
    ['AGENT_JOBS_BASE_URL', 'http://127.0.0.1.example.com'],
    ['AGENT_JOBS_BASE_URL', 'http://0.0.0.0'],
    ['AGENT_JOBS_BASE_URL', 'ftp://api.example.com'],
    ['AGENT_JOBS_BASE_URL', 'api.example.com'],
    ['AGENT_JOBS_BASE_URL', 'https://api.example.com?x=1'],
    ['AGENT_JOBS_BASE_URL', 'https://api.example.com/#x'],
  ];
  test.each(wrong)('refuses %s=%s', (name, value, rule = /./, more = {}) => {
    expect(issues({ ...more, [name]: value })).toMatchObject({ [name]: expect.stringMatching(rule) });
  });

  test('names every bad setting in one error', () => {
    const path = join(file('no-directory', ''), 'key');
    const env = { AGENT_JOBS_API_KEY_FILE: path, FOLLOW_UP_DATA_CONVERTER: path, FOLLOW_UP_LOG_LEVEL: 'loud' };
    expect(issuesOf(() => loadConfig({ ...env, TEMPORAL_ADDRESS: 'http://localhost' }))).toEqual({
      AGENT_JOBS_BASE_URL: expect.any(String),
      AGENT_JOBS_API_KEY_FILE: expect.stringContaining('cannot be read: ENOTDIR'),
      FOLLOW_UP_DATA_CONVERTER: expect.stringContaining('must be the path'),
      FOLLOW_UP_LOG_LEVEL: expect.any(String),
      TEMPORAL_ADDRESS: expect.any(String),
    });
  });

  test('accepts the highest limit, and the shortest window with the longest margin', () => {
    expect(issues({ FOLLOW_UP_BUDGET_LIMIT: '10000' })).toEqual({});
    const { budget: settings } = loadConfig({ ...good, FOLLOW_UP_BUDGET_WINDOW: '1s', FOLLOW_UP_MARGIN: '5m' });
    expect(projectBudgetInputSchema.safeParse({ projectId: 'p', settings }).success).toBe(true);
  });

  test.each<[given: string, baseUrl: string, more?: Env]>([
    ['https://api.example.com/prefix/', 'https://api.example.com/prefix'],
    ['http://127.8.9.10', 'http://127.8.9.10'],
    ['http://[::1]:8080', 'http://[::1]:8080'],
    ['http://api.test', 'http://api.test', { AGENT_JOBS_ALLOW_HTTP: 'true' }],
  ])('accepts the base URL %s', (given, baseUrl, more = {}) => {
    expect(loadConfig({ ...good, ...more, AGENT_JOBS_BASE_URL: given }).agentJobs.baseUrl).toBe(baseUrl);
  });
});

describe('API keys', () => {
  test('are required', () => {
    expect(issuesOf(() => loadConfig(base))).toHaveProperty('AGENT_JOBS_API_KEY');
  });

  test('may come from files, also with a byte order mark, and are read alike at the start and later', async () => {
    const json = JSON.stringify({ 'project-1': SECRET });
    for (const mark of ['', '\ufeff']) {
      const keyFile = file('key', `${mark}${SECRET}\r\n`);
      const keysFile = file('keys.json', `${mark}${json}\r\n`);
      const env = { AGENT_JOBS_API_KEY_FILE: keyFile, AGENT_JOBS_API_KEYS_FILE: keysFile };
      expect(loadConfig({ ...base, ...env }).agentJobs.apiKeys).toEqual({ keyFile, keysFile });
      for (const source of [{ keyFile }, { keysFile }]) {
        const keys = createApiKeys(source);
        expect([await keys.problem(), await keys.forProject('project-1')]).toEqual([undefined, SECRET]);
      }
    }
    for (const text of [Buffer.from(`\ufeff${json}`, 'utf16le'), Buffer.from(`\u00a0${json}`)]) {
      const keysFile = file('unreadable', text);
      expect(issuesOf(() => loadConfig({ ...base, AGENT_JOBS_API_KEYS_FILE: keysFile }))).not.toEqual({});
      expect(await createApiKeys({ keysFile }).problem()).toBeDefined();
    }
  });

  test.each([
    ['AGENT_JOBS_API_KEY', 'has a line break', () => `${SECRET}\r\nX-Injected: 1`],
    ['AGENT_JOBS_API_KEY', 'has a space', () => `${SECRET} and more`],
    ['AGENT_JOBS_API_KEY', 'is not ASCII', () => `${SECRET}-ümlaut`],
    ['AGENT_JOBS_API_KEY', 'is too short', () => 'short'],
    ['AGENT_JOBS_API_KEY', 'has the quotes of an env file', () => `"${SECRET}"`],
    ['AGENT_JOBS_API_KEY_FILE', 'has quotes', () => file('quoted', `"${SECRET}"\n`)],
    ['AGENT_JOBS_API_KEY_FILE', 'has two lines', () => file('two-lines', `${SECRET}\nand more`)],
    ['AGENT_JOBS_API_KEY_FILE', 'is a directory', () => directory],
    ['AGENT_JOBS_API_KEYS_FILE', 'is missing', () => join(directory, 'missing.json')],
    ['AGENT_JOBS_API_KEYS_FILE', 'is not JSON', () => file('no-json', `{ "p": "${SECRET}"`)],
    ['AGENT_JOBS_API_KEYS_FILE', 'has a bad project id', () => file('bad-id', JSON.stringify({ 'a/b': SECRET }))],
    ['AGENT_JOBS_API_KEYS_FILE', 'is a list', () => file('list', JSON.stringify([SECRET]))],
  ])('are refused and not shown if %s %s', (name, _what, value) => {
    const issues = issuesOf(() => loadConfig({ ...base, [name]: value() }));
    expect(issues).toEqual({ [name]: expect.not.stringContaining('short"') });
  });

  test('are not shown when a configuration is inspected or written as JSON', () => {
    const config = loadConfig({ ...good, TEMPORAL_API_KEY: SECRET });
    expect(inspect(config, { depth: null, showHidden: true })).not.toContain(SECRET);
    expect(JSON.stringify(config)).not.toContain(SECRET);
  });

  test('lead to a warning if everybody can read their file', () => {
    const path = file('open-key', SECRET);
    const warningsAt = (mode: number) => {
      chmodSync(path, mode);
      return loadConfig({ ...base, AGENT_JOBS_API_KEY_FILE: path }).warnings;
    };
    expect(warningsAt(0o640)).toEqual([]);
    expect(warningsAt(0o604)).toEqual([expect.stringMatching(/^AGENT_JOBS_API_KEY_FILE: every user .*open-key/)]);
  });
});

describe('the Temporal configuration', () => {
  const toml = file(
    'temporal.toml',
    `\ufeff[profile.default]\r
address = "one.example.com:7233"\r
namespace = "one"
[profile.cloud]
address = "two.example.com:7233"
namespace = "two"
api_key = "${SECRET}"
`,
  );
  const broken = file('broken.toml', `[profile.default]\napi_key = ${SECRET}\n`);
  const keyFile = file('temporal-key', `${SECRET}\n`);
  const far = { TEMPORAL_ADDRESS: 'far:7233' };
  const plain = { TEMPORAL_TLS: 'false' };

  test.each<[what: string, env: Env, config: object, connection?: object]>([
    ['comes from a file', { TEMPORAL_CONFIG_FILE: toml }, { address: 'one.example.com:7233', namespace: 'one' }],
    [
      'comes from a profile, which variables override',
      { TEMPORAL_CONFIG_FILE: toml, TEMPORAL_PROFILE: 'cloud', TEMPORAL_NAMESPACE: 'three' },
      { address: 'two.example.com:7233', namespace: 'three' },
      { tls: true, apiKey: SECRET },
    ],
    [
      'takes the API key of a file rather than a variable',
      { TEMPORAL_API_KEY_FILE: keyFile, TEMPORAL_API_KEY: 'x' },
      {},
      { apiKey: SECRET },
    ],
    ['accepts a switch in capitals', { TEMPORAL_TLS: 'TRUE' }, {}, { tls: expect.any(Object) }],
    ['accepts a switch that is off', { TEMPORAL_TLS: 'False' }, {}, { tls: false }],
    ['fills in the port of IPv6', { TEMPORAL_ADDRESS: '[::1]' }, { address: '[::1]:7233' }],
    ['allows a key over plaintext on this machine', { ...plain, TEMPORAL_API_KEY: SECRET }, {}, { apiKey: SECRET }],
  ])('%s', (_what, env, config, connection = {}) => {
    const loaded = loadTemporalConfig(env);
    expect(loaded).toMatchObject(config);
    expect(loaded.connectionOptions()).toMatchObject(connection);
  });

  test.each<[what: string, env: Env, name: string, problem: RegExp]>([
    [
      'TLS that is off beside a key file for another machine',
      { ...far, ...plain, TEMPORAL_API_KEY_FILE: keyFile },
      'TEMPORAL_TLS',
      /must be on/,
    ],
    [
      'TLS that is off beside an API key for another machine',
      { ...far, ...plain, TEMPORAL_API_KEY: SECRET },
      'TEMPORAL_TLS',
      /must be on/,
    ],
    [
      'an authorization header for another machine without TLS',
      { ...far, TEMPORAL_GRPC_META_AUTHORIZATION: `Bearer ${SECRET}` },
      'TEMPORAL_TLS',
      /must be on/,
    ],
    [
      'a file with two API keys',
      { TEMPORAL_API_KEY_FILE: file('two', `${SECRET}\n${SECRET}`) },
      'TEMPORAL_API_KEY_FILE',
      /must hold one key/,
    ],
    [
      'an API key in the quotes of an env file',
      { TEMPORAL_API_KEY: `"${SECRET}"` },
      'TEMPORAL_API_KEY',
      /not in quotes$/,
    ],
    [
      'a missing file of the API key',
      { TEMPORAL_API_KEY_FILE: join(directory, 'gone') },
      'TEMPORAL_API_KEY_FILE',
      /cannot be read: ENOENT/,
    ],
    [
      'a client certificate without its key',
      { TEMPORAL_TLS_CLIENT_CERT_PATH: file('client.pem', 'x') },
      'TEMPORAL_TLS_CLIENT_KEY_PATH',
      /./,
    ],
    [
      'a missing configuration file',
      { TEMPORAL_CONFIG_FILE: join(directory, 'none.toml') },
      'TEMPORAL_CONFIG_FILE',
      /./,
    ],
    [
      'a profile that the configuration file does not have',
      { TEMPORAL_CONFIG_FILE: toml, TEMPORAL_PROFILE: 'gone' },
      'TEMPORAL_PROFILE',
      /Profile 'gone' not found/,
    ],
    [
      'a configuration file that is not TOML',
      { TEMPORAL_CONFIG_FILE: broken },
      'TEMPORAL_*',
      /^the configuration file is not TOML, see line 2$/,
    ],
  ])('refuses %s', (_what, env, name, problem) => {
    expect(temporalIssues(env)).toMatchObject({ [name]: expect.stringMatching(problem) });
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

  test('does not need the default configuration file, readable or not, if the address is set', () => {
    // The file is a directory, which nobody can read, whoever runs the test.
    const home = mkdtempSync(join(tmpdir(), 'config-home-'));
    mkdirSync(join(home, 'temporalio', 'temporal.toml'), { recursive: true });
    const env = { XDG_CONFIG_HOME: home };
    expect(loadTemporalConfig({ ...env, TEMPORAL_ADDRESS: 'one.example.com' }).address).toBe('one.example.com:7233');
    expect(temporalIssues(env)['TEMPORAL_*']).toBe('the configuration file cannot be read: EISDIR');
  });

  test('leaves out the byte order mark of a certificate or key, and refuses a certificate in UTF-16', () => {
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
    expect(temporalIssues({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: latin1 })).toEqual({});
    const utf16 = file('utf16.pem', Buffer.from(`\uFEFF${read('ca.pem').toString()}`, 'utf16le'));
    const problem = 'must name a file that holds a certificate in PEM: it is UTF-16; the file must be UTF-8';
    const name = 'TEMPORAL_TLS_SERVER_CA_CERT_PATH';
    expect(temporalIssues({ [name]: utf16 })).toEqual({ [name]: problem });
  });

  test('gives commands their task queue and budget settings without settings of the service', () => {
    expect(loadClientConfig({})).toMatchObject({ taskQueue: 'follow-ups', budget: { limit: 100 } });
    const env = { FOLLOW_UP_TASK_QUEUE: 'mine', FOLLOW_UP_BUDGET_LIMIT: '7' };
    expect(loadClientConfig(env)).toMatchObject({ taskQueue: 'mine', budget: { limit: 7 } });
    const bad = { TEMPORAL_ADDRESS: 'no port:here', FOLLOW_UP_TASK_QUEUE: '/_sys/x', FOLLOW_UP_BUDGET_LIMIT: '0' };
    expect(Object.keys(issuesOf(() => loadClientConfig(bad))).sort()).toEqual(Object.keys(bad).sort());
  });
});
