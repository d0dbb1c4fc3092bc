import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Connection } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../src/config/index.js';
import { maskSecrets } from '../../src/secrets/secrets.js';
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
  const TEMPORAL_ADDRESS = inject('temporalAddress');
  const connection = await Connection.connect({ address: TEMPORAL_ADDRESS });
  // Some commands ask every budget of their namespace. Those of other tests have no worker any more.
  const TEMPORAL_NAMESPACE = await makeNamespace(connection);
  await connection.close();
  base = {
    ...{ HOME: directory, TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS: 'false' },
    ...{ AGENT_JOBS_BASE_URL: simulator.baseUrl, AGENT_JOBS_API_KEY: 'another-key-for-tests' },
    ...{ FOLLOW_UP_STATUS_ADDRESS: '127.0.0.1:0', FOLLOW_UP_LOG_LEVEL: 'trace' },
  };
  expect(await runCli(['setup'], { env: base })).toMatchObject({ exitCode: 0 });
});
afterAll(() => simulator.close());

/** A secret as it is, and as people paste it. */
const pasted: ((secret: string) => string)[] = [
  (secret) => secret,
  (secret) => `${secret}\n`,
  (secret) => `${secret}\n${secret}`,
  (secret) => `“${secret}”`,
  (secret) => `${secret}é`,
];
const pem = (secret: string) => `-----BEGIN PRIVATE KEY-----\n${secret}\n-----END PRIVATE KEY-----\n`;
const keyData = (secret: string) => ({ TEMPORAL_TLS_CLIENT_KEY_DATA: pem(secret) });
const toml = (line: string) => ({ TEMPORAL_CONFIG_FILE: file(`[profile.default]\n${line}\n`) });
const tlsOfProfile = (fields: string) => ({ TEMPORAL_TLS: 'true', ...toml(`tls = { ${fields} }`) });
const brokenProfile = () => toml('=');

const TLS = { TEMPORAL_TLS: 'true' };
const FAR = 'far.invalid:7233';
const quoted = JSON.stringify;

/** Every setting that can hold a secret. */
const settings: Record<string, (secret: string) => Record<string, string>> = {
  AGENT_JOBS_API_KEY: (secret) => ({ AGENT_JOBS_API_KEY: secret }),
  'the file of AGENT_JOBS_API_KEY_FILE': (secret) => ({ AGENT_JOBS_API_KEY_FILE: file(secret) }),
  'the file of AGENT_JOBS_API_KEYS_FILE': (secret) => ({ AGENT_JOBS_API_KEYS_FILE: file(quoted({ p: secret })) }),
  TEMPORAL_API_KEY: (secret) => ({ TEMPORAL_API_KEY: secret }),
  'TEMPORAL_API_KEY for another machine': (secret) => ({ TEMPORAL_API_KEY: secret, TEMPORAL_ADDRESS: FAR }),
  'the file of TEMPORAL_API_KEY_FILE': (secret) => ({ TEMPORAL_API_KEY_FILE: file(secret) }),
  'the authorization header for Temporal': (secret) => ({ TEMPORAL_GRPC_META_AUTHORIZATION: `Bearer ${secret}` }),
  'another header for Temporal': (secret) => ({ TEMPORAL_GRPC_META_X_TOKEN: secret }),
  'TEMPORAL_API_KEY beside a broken profile': (secret) => ({ ...brokenProfile(), TEMPORAL_API_KEY: secret }),
  'a header for Temporal beside a broken profile': (secret) => ({
    ...brokenProfile(),
    TEMPORAL_GRPC_META_X_TOKEN: secret,
  }),
  'a binary header for Temporal': (secret) => ({ 'TEMPORAL_GRPC_META_TOKEN-BIN': secret }),
  'the authorization of the codec server': (secret) => ({
    TEMPORAL_CODEC_AUTH: secret,
    TEMPORAL_CODEC_ENDPOINT: 'https://codec.invalid',
  }),
  TEMPORAL_TLS_CLIENT_KEY_DATA: (secret) => ({
    ...TLS,
    ...keyData(secret),
    TEMPORAL_TLS_CLIENT_CERT_DATA: certificate,
  }),
  'TEMPORAL_TLS_CLIENT_KEY_DATA beside a broken profile': (secret) => ({ ...brokenProfile(), ...keyData(secret) }),
  'the file of TEMPORAL_TLS_CLIENT_KEY_PATH': (secret) => ({
    ...{ ...TLS, TEMPORAL_TLS_CLIENT_KEY_PATH: file(pem(secret)), TEMPORAL_TLS_CLIENT_CERT_DATA: certificate },
  }),
  'the API key of a profile': (secret) => toml(`api_key = ${quoted(secret)}`),
  'a header of a profile': (secret) => toml(`grpc_meta = { authorization = ${quoted(secret)} }`),
  'the certificate key of a profile': (secret) =>
    tlsOfProfile(`client_key_data = ${quoted(pem(secret))}, client_cert_data = ${quoted(certificate)}`),
  'the address of Temporal': (secret) => ({ TEMPORAL_ADDRESS: `me:${secret}@${FAR}` }),
  'the address of the service': (secret) => ({ AGENT_JOBS_BASE_URL: `http://me:${secret}@127.0.0.1` }),
  'the address of a proxy': (secret) => ({ http_proxy: `http://me:${secret}@127.0.0.1:9` }),
  'the percent-encoded address of a proxy': (secret) => ({
    http_proxy: `http://me:${encodeURIComponent(secret)}@127.0.0.1:9`,
  }),
  'the address of a proxy without a scheme': (secret) => ({ HTTPS_PROXY: `me:${secret}@127.0.0.1:9` }),
};

/** Settings that are refused before anything in them is known to be a secret: their values are not shown. */
const unread: typeof settings = {
  'AGENT_JOBS_API_KEY_FILE instead of its file': (secret) => ({ AGENT_JOBS_API_KEY_FILE: secret }),
  'the broken file of AGENT_JOBS_API_KEYS_FILE': (secret) => ({ AGENT_JOBS_API_KEYS_FILE: file(`{"p": "${secret}"`) }),
  'AGENT_JOBS_API_KEYS_FILE instead of its file': (secret) => ({ AGENT_JOBS_API_KEYS_FILE: quoted({ p: secret }) }),
  'TEMPORAL_API_KEY_FILE instead of its file': (secret) => ({ TEMPORAL_API_KEY_FILE: secret }),
  'TEMPORAL_TLS_CLIENT_KEY_PATH instead of its file': (secret) => {
    const text = `${pem(secret)}${secret}`;
    const certificates = { TEMPORAL_TLS_CLIENT_CERT_PATH: text, TEMPORAL_TLS_SERVER_CA_CERT_PATH: text };
    return { ...TLS, TEMPORAL_TLS_CLIENT_KEY_PATH: text, ...certificates };
  },
  'the API key of a profile without quotes': (secret) => toml(`api_key = ${secret}`),
  'the API key of a profile in a list': (secret) => toml(`api_key = [${quoted(secret)}]`),
  'the certificate key of a profile without its certificate': (secret) =>
    tlsOfProfile(`client_key_data = ${quoted(pem(secret))}, client_cert_path = "/x"`),
};

const SHORT = 'k3y-0=?';

/** In the gate, the two commands that show settings and errors; among the long tests, all. */
const few = ['doctor', 'send p j --prompt x --no-wait --json'];
const all = ['list', 'list --json', 'doctor --json', 'setup --json', 'budget list', 'batch status none'].concat(
  ...['schedule list --json', 'status follow-up/p/j/k --json', ...few],
);

function isAccepted(env: Record<string, string>): boolean {
  try {
    loadConfig({ ...base, ...env });
    return true;
  } catch {
    return false;
  }
}

/** What commands print in which `finds` finds something. The worker is run only where its settings are refused. */
async function printed(env: Record<string, string>, commands: string[], finds: (text: string) => boolean) {
  const queue = { FOLLOW_UP_TASK_QUEUE: `planted-${randomUUID()}` };
  const accepted = isAccepted(env);
  // A command waits for seconds for a machine that is away.
  const runs = JSON.stringify(env).includes('far.invalid') && accepted ? ['list --json'] : commands;
  const found: string[] = [];
  for (const command of [...runs, ...(accepted ? [] : ['worker', 'dev --exit --json'])]) {
    const { exitCode, stdout, stderr } = await runCli(command.split(' '), { env: { ...base, ...queue, ...env } });
    if (finds(stdout + stderr)) found.push(`${command} (exit code ${exitCode}): ${(stdout + stderr).slice(0, 600)}`);
  }
  return found;
}

test.each(Object.entries(settings))('a secret in %s is masked, however it was pasted', (_name, plant) => {
  for (const paste of pasted) {
    const secret = newSecret();
    const planted = paste(secret);
    isAccepted(plant(planted));
    const said = maskSecrets(`A server says: <${planted.trim()}> is wrong.`);
    expect(findSecret(secret, said), JSON.stringify(planted)).toEqual([]);
  }
});

describe.each(Object.entries({ ...settings, ...unread }))('a secret in %s', (_name, plant) => {
  // Too short to be masked in any text: it must not get into one.
  const short = (text: string) => text.includes(SHORT) || text.includes(encodeURIComponent(SHORT));
  test('is printed by neither doctor nor send, even if it is too short to be masked', async () => {
    expect(await printed(plant(SHORT), few, short)).toEqual([]);
  });

  test('is printed by no command, however it was pasted', { tags: 'long' }, async () => {
    expect(await printed(plant(SHORT), all, short)).toEqual([]);
    for (const paste of pasted) {
      const secret = newSecret();
      expect(await printed(plant(paste(secret)), all, (text) => findSecret(secret, text).length > 0)).toEqual([]);
    }
  });
});

test.each([
  ['TEMPORAL_API_KEY', 'in curly quotes', `“${newSecret()}”`],
  ['TEMPORAL_API_KEY', 'of two lines', `${newSecret()}\n${newSecret()}`],
  ['TEMPORAL_GRPC_META_X_TOKEN', 'with an accent', `${newSecret()}é`],
  ['TEMPORAL_GRPC_META_AUTHORIZATION', 'of two lines', `Bearer ${newSecret()}\nx`],
  ['TEMPORAL_GRPC_META_AUTHORIZATION', 'that is too short to be masked', `Bearer ${SHORT}`],
  ['TEMPORAL_NAMESPACE', 'with an umlaut', 'düsseldorf'],
])('%s %s is refused with its name', async (name, _what, value) => {
  const { exitCode, stderr } = await runCli(['list'], { env: { ...base, [name]: value } });
  expect({ exitCode, stderr }, value).toEqual({ exitCode: 2, stderr: expect.stringContaining(`${name}: must be`) });
});

test('the line end of a key or a header for Temporal is not part of it', async () => {
  const env = { TEMPORAL_API_KEY: `${newSecret()}\n`, TEMPORAL_GRPC_META_X_TOKEN: `  ${newSecret()}\r\n` };
  expect(await runCli(['list'], { env: { ...base, ...env } })).toMatchObject({ exitCode: 0 });
});

test('the API key and the headers are masked in the answer of a server that repeats them', async () => {
  const [key, token] = [newSecret(), newSecret()];
  const server = createServer();
  server.on('stream', (stream: ServerHttp2Stream, headers) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
    const text = encodeURIComponent(`bad ${headers['authorization']} and ${String(headers['x-token'])}`);
    stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '16', 'grpc-message': text }));
    stream.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const TEMPORAL_ADDRESS = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const env = { ...base, TEMPORAL_ADDRESS, TEMPORAL_API_KEY: key, TEMPORAL_GRPC_META_X_TOKEN: token };
  const commands = [['list', '--json'], ['doctor'], ['setup']].map((command) => runCli(command, { env }));
  for (const { exitCode, stdout, stderr } of await Promise.all([...commands, startCli(['worker'], { env }).ended])) {
    expect(exitCode, stderr).toBe(5);
    expect(stdout + stderr).toContain('bad Bearer [masked] and [masked]');
    expect([key, token].flatMap((secret) => findSecret(secret, stdout + stderr))).toEqual([]);
  }
});

test('a worker with a secret in every setting prints none of them, in its log, its metrics and its output', async () => {
  const plain = { serviceKey, temporalKey: newSecret(), header: newSecret(), codec: newSecret() };
  // Of these, no encoding in base64 is masked.
  const literal = { projectKey: newSecret(), privateKey: newSecret(), proxy: newSecret() };
  const secrets = Object.values({ ...plain, ...literal });
  const env = {
    ...base,
    // Temporal's own metrics, logs and answers show this name.
    FOLLOW_UP_TASK_QUEUE: ['planted', ...secrets].join('.'),
    AGENT_JOBS_API_KEYS_FILE: file(JSON.stringify({ elsewhere: literal.projectKey })),
    AGENT_JOBS_API_KEY_FILE: file(`${serviceKey}\n`),
    TEMPORAL_API_KEY: `${plain.temporalKey}\n`,
    TEMPORAL_GRPC_META_X_TOKEN: plain.header,
    TEMPORAL_CODEC_AUTH: plain.codec,
    TEMPORAL_TLS_CLIENT_KEY_DATA: pem(literal.privateKey),
    https_proxy: `http://me:${encodeURIComponent(literal.proxy)}@127.0.0.1:9`,
  };
  const worker = startCli(['worker', '--json'], { env });
  onTestFinished(() => worker.kill('SIGKILL'));
  const line = await eventually('it is ready', () => (worker.stdout().includes('\n') ? worker.stdout() : undefined));
  const { statusUrl } = JSON.parse(line) as { statusUrl: string };
  const texts: string[] = [];
  const sent = await runCli('send planted j --prompt x --poll-initial-interval 200ms --json'.split(' '), { env });
  expect(sent.exitCode, sent.stderr).toBe(0);
  for (const { stdout, stderr } of [sent, await runCli('doctor --project planted --job j'.split(' '), { env })]) {
    texts.push(stdout, stderr);
  }
  for (const path of ['/metrics', '/readyz']) texts.push(await (await fetch(`${statusUrl}${path}`)).text());
  worker.kill('SIGTERM');
  const { exitCode, stdout, stderr } = await worker.ended;
  expect(exitCode, stderr).toBe(0);
  expect(stderr.length).toBeGreaterThan(1_000);
  texts.push(stdout, stderr);
  expect(texts.join('\n')).toContain(`task_queue="planted${'.[masked]'.repeat(secrets.length)}"`);
  const found = Object.entries({ ...plain, ...literal }).flatMap(([setting, secret]) =>
    texts.flatMap((text) => findSecret(secret, text)).map((spelling) => `${setting}: ${spelling}`),
  );
  const isLiteral = (text: string) => Object.keys(literal).some((setting) => text.startsWith(setting));
  expect(found.filter((text) => !(isLiteral(text) && text.includes('base64')))).toEqual([]);
});
