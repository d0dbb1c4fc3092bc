import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { loadConfig } from '../../src/config/index.js';
import { maskSecrets } from '../../src/secrets.js';
import { type Simulator, startSimulator } from '../../src/simulator/index.js';
import { eventually } from '../support/eventually.js';
import { findSecret } from '../support/secret-search.js';
import { makeNamespace } from '../worker/support.js';
import { runCli, startCli } from './run-cli.js';

/**
 * A process masks for good what it once read as a secret. Each secret is new, so that nothing but the setting under test
 * protects it.
 */
const newSecret = () => `${randomBytes(6).toString('hex')}/+=7`;
const serviceKey = newSecret();
const directory = mkdtempSync(join(tmpdir(), 'planted-'));
const certificate = readFileSync(join(import.meta.dirname, '../agent-jobs/tls/server.pem'), 'utf8');

function file(text: string): string {
  const path = join(directory, randomUUID());
  writeFileSync(path, text, { mode: 0o600 });
  return path;
}

let simulator: Simulator;
let base: Record<string, string>;
beforeAll(async () => {
  simulator = await startSimulator({ autoCreate: true, apiKey: serviceKey, turn: { minMs: 100, maxMs: 200 } });
  const address = inject('temporalAddress');
  const connection = await Connection.connect({ address });
  // Some commands ask every budget of their namespace. Those of other tests have no worker any more.
  const namespace = await makeNamespace(connection);
  await connection.close();
  base = {
    HOME: directory,
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
    TEMPORAL_TLS: 'false',
    AGENT_JOBS_BASE_URL: simulator.baseUrl,
    AGENT_JOBS_API_KEY: 'another-key-for-tests',
    FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0',
    FOLLOW_UP_LOG_LEVEL: 'trace',
  };
  expect(await runCli(['setup'], { env: base })).toMatchObject({ exitCode: 0 });
});
afterAll(() => simulator.close());

/** A secret as it is, and as people paste it. */
const pasted: Record<string, (secret: string) => string> = {
  'as it is': (secret) => secret,
  'with a line end': (secret) => `${secret}\n`,
  'with two lines': (secret) => `${secret}\n${secret}`,
  'with typographic quotes': (secret) => `“${secret}”`,
  'with another letter': (secret) => `${secret}é`,
};
const pem = (secret: string) => `-----BEGIN PRIVATE KEY-----\n${secret}\n-----END PRIVATE KEY-----\n`;
const toml = (line: string) => ({ TEMPORAL_CONFIG_FILE: file(`[profile.default]\n${line}\n`) });
const tlsOfProfile = (fields: string) => ({ TEMPORAL_TLS: 'true', ...toml(`tls = { ${fields} }`) });
const brokenProfile = () => toml('=');

/** Every setting that can hold a secret. */
const settings: Record<string, (secret: string) => Record<string, string>> = {
  'the key of the service': (secret) => ({ AGENT_JOBS_API_KEY: secret }),
  'the file of that key': (secret) => ({ AGENT_JOBS_API_KEY_FILE: file(secret) }),
  'that key in the place of its file': (secret) => ({ AGENT_JOBS_API_KEY_FILE: secret }),
  'a key per project': (secret) => ({ AGENT_JOBS_API_KEYS_FILE: file(JSON.stringify({ p: secret })) }),
  'a broken file of these': (secret) => ({ AGENT_JOBS_API_KEYS_FILE: file(`{"p": "${secret}"`) }),
  'these in the place of their file': (secret) => ({ AGENT_JOBS_API_KEYS_FILE: JSON.stringify({ p: secret }) }),
  "Temporal's key": (secret) => ({ TEMPORAL_API_KEY: secret }),
  "Temporal's key at another machine": (secret) => ({ TEMPORAL_API_KEY: secret, TEMPORAL_ADDRESS: 'far.invalid:7233' }),
  'the file of its key': (secret) => ({ TEMPORAL_API_KEY_FILE: file(secret) }),
  'its key in the place of the file': (secret) => ({ TEMPORAL_API_KEY_FILE: secret }),
  'the authorization': (secret) => ({ TEMPORAL_GRPC_META_AUTHORIZATION: `Bearer ${secret}` }),
  'another header': (secret) => ({ TEMPORAL_GRPC_META_X_TOKEN: secret }),
  "Temporal's key beside a broken profile": (secret) => ({ ...brokenProfile(), TEMPORAL_API_KEY: secret }),
  'another header beside a broken profile': (secret) => ({ ...brokenProfile(), TEMPORAL_GRPC_META_X_TOKEN: secret }),
  'a binary header': (secret) => ({ 'TEMPORAL_GRPC_META_TOKEN-BIN': secret }),
  'the codec server': (secret) => ({ TEMPORAL_CODEC_AUTH: secret, TEMPORAL_CODEC_ENDPOINT: 'https://codec.invalid' }),
  'the key of a certificate': (secret) => ({
    TEMPORAL_TLS: 'true',
    TEMPORAL_TLS_CLIENT_KEY_DATA: pem(secret),
    TEMPORAL_TLS_CLIENT_CERT_DATA: certificate,
  }),
  'the key of a certificate beside a broken profile': (secret) => ({
    ...brokenProfile(),
    TEMPORAL_TLS_CLIENT_KEY_DATA: pem(secret),
  }),
  'the file of such a key': (secret) => ({
    TEMPORAL_TLS: 'true',
    TEMPORAL_TLS_CLIENT_KEY_PATH: file(pem(secret)),
    TEMPORAL_TLS_CLIENT_CERT_DATA: certificate,
  }),
  'such a key in the place of the file': (secret) => ({
    TEMPORAL_TLS: 'true',
    TEMPORAL_TLS_CLIENT_KEY_PATH: `${pem(secret)}${secret}`,
    TEMPORAL_TLS_CLIENT_CERT_PATH: `${pem(secret)}${secret}`,
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: `${pem(secret)}${secret}`,
  }),
  'the key of a profile': (secret) => toml(`api_key = ${JSON.stringify(secret)}`),
  'a key of a profile without quotes': (secret) => toml(`api_key = ${secret}`),
  'a key of a profile in a list': (secret) => toml(`api_key = [${JSON.stringify(secret)}]`),
  'a header of a profile': (secret) => toml(`grpc_meta = { authorization = ${JSON.stringify(secret)} }`),
  'the key of a certificate of a profile': (secret) =>
    tlsOfProfile(`client_key_data = ${JSON.stringify(pem(secret))}, client_cert_data = ${JSON.stringify(certificate)}`),
  'the key of a certificate of a profile without the certificate': (secret) =>
    tlsOfProfile(`client_key_data = ${JSON.stringify(pem(secret))}, client_cert_path = "/x"`),
  'an address of Temporal': (secret) => ({ TEMPORAL_ADDRESS: `me:${secret}@far.invalid:7233` }),
  'an address of the service': (secret) => ({ AGENT_JOBS_BASE_URL: `http://me:${secret}@127.0.0.1` }),
  'the address of a proxy': (secret) => ({ http_proxy: `http://me:${secret}@127.0.0.1:9` }),
  'an encoded address of a proxy': (secret) => ({ http_proxy: `http://me:${encodeURIComponent(secret)}@127.0.0.1:9` }),
  'the address of a proxy without a scheme': (secret) => ({ HTTPS_PROXY: `me:${secret}@127.0.0.1:9` }),
};

/** Settings that are refused before anything in them is known to be a secret: their values are not shown. */
const unread = new Set([
  'that key in the place of its file',
  'a broken file of these',
  'these in the place of their file',
  'its key in the place of the file',
  'such a key in the place of the file',
  'a key of a profile without quotes',
  'a key of a profile in a list',
  'the key of a certificate of a profile without the certificate',
]);

const commands = [
  ['list'],
  ['list', '--json'],
  ['doctor'],
  ['doctor', '--json'],
  ['setup', '--json'],
  ['budget', 'list'],
  ['batch', 'status', 'none'],
  ['schedule', 'list', '--json'],
  ['status', 'follow-up/p/j/k', '--json'],
  ['send', 'p', 'j', '--prompt', 'x', '--no-wait', '--json'],
];

function isAccepted(env: Record<string, string>): boolean {
  try {
    loadConfig({ ...base, ...env });
    return true;
  } catch {
    return false;
  }
}

/** What each command prints. The worker is run only where its settings are refused. */
async function printed(env: Record<string, string>): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  const queue = { FOLLOW_UP_TASK_QUEUE: `planted-${randomUUID()}` };
  const far = JSON.stringify(env).includes('far.invalid');
  const accepted = isAccepted(env);
  // A command waits for seconds for a machine that is away.
  const runs = far && accepted ? [['list', '--json']] : commands;
  for (const command of [...runs, ...(accepted ? [] : [['worker'], ['dev', '--exit', '--json']])]) {
    const { exitCode, stdout, stderr } = await runCli(command, { env: { ...base, ...queue, ...env } });
    texts.set(`${command.join(' ')} (exit code ${exitCode})`, `${stdout}\n${stderr}`);
  }
  return texts;
}

describe.each(Object.keys(settings).filter((each) => !unread.has(each)))('a secret that is %s', (setting) => {
  test.each(Object.keys(pasted))('%s, is masked once the settings are read', (way) => {
    const secret = newSecret();
    const planted = pasted[way]!(secret);
    isAccepted(settings[setting]!(planted));
    expect(findSecret(secret, maskSecrets(`A server says: <${planted.trim()}> is wrong.`))).toEqual([]);
  });
});

describe.each(Object.keys(settings))('a secret that is %s', { tags: 'long' }, (setting) => {
  test.each(Object.keys(pasted))('%s, is printed by no command', async (way) => {
    const secret = newSecret();
    const found = [...(await printed(settings[setting]!(pasted[way]!(secret))))].flatMap(([command, text]) =>
      findSecret(secret, text).map((spelling) => `${command}: ${spelling} in ${text.slice(0, 600)}`),
    );
    expect(found).toEqual([]);
  });
});

/** Too short to be masked in any text: it must not get into one. */
const SHORT = 'k3y-0=?';

test.each(Object.keys(settings))('a short secret that is %s, is printed by no command', async (setting) => {
  const found = [...(await printed(settings[setting]!(SHORT)))].flatMap(([command, text]) =>
    text.includes(SHORT) || text.includes(encodeURIComponent(SHORT)) ? [`${command}: ${text.slice(0, 600)}`] : [],
  );
  expect(found).toEqual([]);
});

test("a key or a header for Temporal that cannot be sent is refused by its variable's name, before anything is sent", async () => {
  const secret = newSecret();
  for (const [name, value] of [
    ['TEMPORAL_API_KEY', `“${secret}”`],
    ['TEMPORAL_API_KEY', `${secret}\n${secret}`],
    ['TEMPORAL_GRPC_META_X_TOKEN', `${secret}é`],
    ['TEMPORAL_GRPC_META_AUTHORIZATION', `Bearer ${secret}\nx`],
    ['TEMPORAL_GRPC_META_AUTHORIZATION', `Bearer ${SHORT}`],
    ['TEMPORAL_NAMESPACE', 'düsseldorf'],
  ] as const) {
    const { exitCode, stderr } = await runCli(['list'], { env: { ...base, [name]: value } });
    expect({ exitCode, stderr }, value).toEqual({ exitCode: 2, stderr: expect.stringContaining(`${name}: must be`) });
  }
});

test('the line end of a key or a header for Temporal is not part of it', async () => {
  const secret = newSecret();
  for (const [name, value] of [
    ['TEMPORAL_API_KEY', `${secret}\n`],
    ['TEMPORAL_GRPC_META_X_TOKEN', `  ${secret}\r\n`],
  ] as const) {
    const { exitCode, stderr } = await runCli(['list'], { env: { ...base, [name]: value } });
    expect(exitCode, stderr).toBe(0);
  }
});

test('a server that repeats the key and the headers it got has them masked', async () => {
  const [key, token] = [newSecret(), newSecret()];
  const findBoth = (text: string) => [key, token].flatMap((secret) => findSecret(secret, text));
  const server = createServer();
  server.on('stream', (stream: ServerHttp2Stream, headers) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    const text = encodeURIComponent(`bad ${headers['authorization']} and ${String(headers['x-token'])}`);
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '16', 'grpc-message': text }));
    stream.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const env = {
    ...base,
    TEMPORAL_ADDRESS: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    TEMPORAL_API_KEY: key,
    TEMPORAL_GRPC_META_X_TOKEN: token,
  };
  for (const command of [['list', '--json'], ['doctor'], ['setup']]) {
    const { exitCode, stdout, stderr } = await runCli(command, { env });
    expect(exitCode, stderr).toBe(5);
    expect(stdout + stderr).toContain('bad Bearer [masked] and [masked]');
    expect(findBoth(stdout + stderr)).toEqual([]);
  }
  const worker = await startCli(['worker', '--json'], { env }).ended;
  expect(worker.exitCode).toBe(5);
  expect(worker.stderr).toContain('bad Bearer [masked] and [masked]');
  expect(findBoth(worker.stdout + worker.stderr)).toEqual([]);
  server.close();
});

test('a worker with a secret in every setting prints none of them, in its log, its metrics and its output', async () => {
  const secrets = {
    serviceKey,
    projectKey: newSecret(),
    temporalKey: newSecret(),
    header: newSecret(),
    codec: newSecret(),
    privateKey: newSecret(),
    proxy: newSecret(),
  };
  const env = {
    ...base,
    // Temporal's own metrics, logs and answers show this name.
    FOLLOW_UP_TASK_QUEUE: ['planted', ...Object.values(secrets)].join('.'),
    AGENT_JOBS_API_KEYS_FILE: file(JSON.stringify({ elsewhere: secrets.projectKey })),
    AGENT_JOBS_API_KEY_FILE: file(`${secrets.serviceKey}\n`),
    TEMPORAL_API_KEY: `${secrets.temporalKey}\n`,
    TEMPORAL_GRPC_META_X_TOKEN: secrets.header,
    TEMPORAL_CODEC_AUTH: secrets.codec,
    TEMPORAL_TLS_CLIENT_KEY_DATA: pem(secrets.privateKey),
    https_proxy: `http://me:${encodeURIComponent(secrets.proxy)}@127.0.0.1:9`,
  };
  const worker = startCli(['worker', '--json'], { env });
  const texts: string[] = [];
  try {
    const line = await eventually('it is ready', () => (worker.stdout().includes('\n') ? worker.stdout() : undefined));
    const { statusUrl } = JSON.parse(line) as { statusUrl: string };
    const project = `planted-${randomUUID().slice(0, 8)}`;
    for (const command of [
      ['send', project, 'j', '--prompt', 'x', '--poll-initial-interval', '200ms', '--json'],
      ['doctor', '--project', project, '--job', 'j'],
      ['list', '--project', project],
    ]) {
      const { exitCode, stdout, stderr } = await runCli(command, { env });
      texts.push(stdout, stderr);
      if (command[0] !== 'doctor') expect(exitCode, stderr).toBe(0);
    }
    for (const path of ['/metrics', '/readyz']) texts.push(await (await fetch(`${statusUrl}${path}`)).text());
  } finally {
    worker.kill('SIGTERM');
  }
  const { exitCode, stdout, stderr } = await worker.ended;
  expect(exitCode, stderr).toBe(0);
  expect(stderr.length).toBeGreaterThan(1_000);
  expect(texts.join('\n')).toContain(`task_queue="planted${'.[masked]'.repeat(Object.keys(secrets).length)}"`);
  // The others are masked in every encoding.
  const literal = ['projectKey', 'privateKey', 'proxy'];
  const found = Object.entries(secrets).flatMap(([setting, secret]) =>
    [stdout, stderr, ...texts]
      .flatMap((text) => findSecret(secret, text))
      .filter((spelling) => !literal.includes(setting) || !spelling.includes('base64'))
      .map((spelling) => `${setting}: ${spelling}`),
  );
  expect(found).toEqual([]);
});
