import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import {
  type ClientConfigProfile,
  type ClientConfigTLS,
  type ConfigDataSource,
  loadClientConfigProfile,
  toClientOptions,
} from '@temporalio/envconfig';
import type { NativeConnectionOptions } from '@temporalio/worker';
import { isUsableApiKey, KEY_RULE, MIN_API_KEY_LENGTH, parseKeyFile } from '../agent-jobs/api-keys.js';
import { isLoopbackHost } from '../agent-jobs/base-url.js';
import { codeOf, defined } from '../common/index.js';
import { NotUtf8Error, withoutBom } from '../node/text-file.js';
import { HEADER_PREFIX, keepHeader, keepPrivateKey, keepSecret, withoutScheme } from '../secrets/secrets.js';
import { dataConverterSetting, parseAddress } from './settings.js';
import { type Environment, readSettings, type SettingsReader } from './settings-reader.js';

export interface TemporalConfig {
  /** Host and port of the frontend. @default 'localhost:7233' */
  address: string;
  /** @default 'default' */
  namespace: string;
  /**
   * For `Connection.connect` and `NativeConnection.connect`, as read at the start. A function, so that logging or
   * inspecting a configuration shows no key or certificate.
   */
  connectionOptions: () => TemporalConnectionOptions;
  /**
   * Reads `TEMPORAL_API_KEY_FILE` again. `undefined` if not set.
   *
   * @throws ConfigError when the file cannot be used
   */
  readKeyFile: (() => string) | undefined;
  /** Proxy variables that would apply to this address if they were not ignored. */
  ignoredProxies: readonly string[];
  /** Absolute path of the module that exports the data converter. @default Temporal's own */
  dataConverterModule: string | undefined;
}

type TemporalConnectionOptions = Pick<NativeConnectionOptions, 'tls' | 'apiKey' | 'metadata'> & {
  address: string;
};

const DEFAULT_ADDRESS = 'localhost:7233';
const DEFAULT_NAMESPACE = 'default';

const PROXIES = ['grpc_proxy', 'https_proxy', 'http_proxy', 'all_proxy'];
const PROXY_VARIABLES = [...PROXIES, ...PROXIES.map((name) => name.toUpperCase())];

/** A hint why a connection may fail where another program's works. Empty without proxy variables. */
export function describeIgnoredProxies({ ignoredProxies }: Pick<TemporalConfig, 'ignoredProxies'>): string {
  if (ignoredProxies.length === 0) return '';
  return `; proxy variables are ignored for Temporal (${ignoredProxies.join(', ')})`;
}

/** Reads `TEMPORAL_*`, the profile and the configuration file with Temporal's own library, and checks the result. */
export function readTemporalConfig(settings: SettingsReader): TemporalConfig {
  const { env } = settings;
  const keyFile = readKeyFile(settings);
  const { namespace, options } = readConnection(settings, keyFile);
  const { address } = options;
  return {
    address,
    namespace,
    connectionOptions: () => options,
    readKeyFile: keyFile === undefined ? undefined : () => readSettings(env, readKeyFile) ?? '',
    ignoredProxies: isLoopback(address) ? [] : PROXY_VARIABLES.filter((name) => env[name]),
    dataConverterModule: settings.read(dataConverterSetting),
  };
}

function readKeyFile(settings: SettingsReader): string | undefined {
  return settings.file('TEMPORAL_API_KEY_FILE', parseKeyFile, `must hold one key, of ${KEY_RULE}`);
}

function readConnection(
  settings: SettingsReader,
  keyOfFile: string | undefined,
): { namespace: string; options: TemporalConnectionOptions } {
  const fallback = { namespace: DEFAULT_NAMESPACE, options: { address: DEFAULT_ADDRESS } };
  // Temporal's library treats a missing file as empty, even if it was named explicitly.
  const file = 'TEMPORAL_CONFIG_FILE';
  if (settings.text(file) !== undefined && settings.file(file, (text) => text) === undefined) return fallback;
  const variables = { ...cleaned(settings), ...defined({ TEMPORAL_API_KEY: keyOfFile }) };
  const refuse: Refuse = (variable, field, rule) =>
    settings.refuse(variable, variable in variables ? rule : `${field} of the profile ${rule}`);
  try {
    const profile = loadProfile(variables);
    const checked = {
      apiKey: checkKey(profile.apiKey, refuse),
      grpcMeta: checkHeaders(profile.grpcMeta, variables, refuse),
      tls: checkTls(profile.tls, refuse),
    };
    const { connectionOptions, namespace = DEFAULT_NAMESPACE } = toClientOptions({ ...profile, ...defined(checked) });
    if (!isAscii(namespace)) refuse('TEMPORAL_NAMESPACE', 'namespace', 'must be printable ASCII characters');
    const address = readAddress(settings, connectionOptions.address);
    const { tls } = connectionOptions;
    const { apiKey, grpcMeta: metadata } = checked;
    const sendsKey = apiKey !== undefined || Object.keys(metadata ?? {}).some(isAuthorization);
    if (sendsKey && !tls && !isLoopback(address)) {
      settings.refuse(
        'TEMPORAL_TLS',
        `must be on: otherwise anyone on the network could read the API key for ${address}`,
      );
    }
    return { namespace, options: defined({ address, tls, apiKey, metadata }) };
  } catch (error) {
    const problem = describeLoadError(error);
    settings.refuse(problem.startsWith('Profile ') ? 'TEMPORAL_PROFILE' : 'TEMPORAL_*', problem);
    return fallback;
  }
}

/**
 * The environment for Temporal's library. Compose files and shells write "not set" as empty text, and leave line ends
 * in values. An empty header is kept, because it removes one of the profile.
 */
function cleaned(settings: SettingsReader): Record<string, string> {
  const entries = Object.entries(settings.env).flatMap(([name, value = '']): [string, string][] => {
    const text = name.startsWith('TEMPORAL_') ? value.trim() : value;
    return text !== '' || name.startsWith(HEADER_PREFIX) ? [[name, text]] : [];
  });
  const tls = settings.text('TEMPORAL_TLS');
  if (tls === undefined) return Object.fromEntries(entries);
  // Temporal's library reads every other spelling as false.
  if (!/^(?:true|false|1|0)$/i.test(tls)) settings.refuse('TEMPORAL_TLS', 'must be true or false', tls);
  return { ...Object.fromEntries(entries), TEMPORAL_TLS: tls.toLowerCase() };
}

function loadProfile(variables: Record<string, string>): ClientConfigProfile {
  const options = { overrideEnvVars: variables };
  try {
    return loadClientConfigProfile(options);
  } catch (error) {
    // In a container, the home directory may belong to another user. Its file is not needed if the environment is
    // enough.
    const names = ['TEMPORAL_CONFIG_FILE', 'TEMPORAL_PROFILE'];
    const needsFile = variables['TEMPORAL_ADDRESS'] === undefined || names.some((name) => name in variables);
    if (needsFile || codeOf(error) === undefined) throw error;
    return loadClientConfigProfile({ ...options, disableFile: true });
  }
}

/** Records a problem of an environment value or a profile field, without the value. */
type Refuse = (variable: string, field: string, rule: string) => void;

function checkKey(value: unknown, refuse: Refuse): string | undefined {
  if (value === undefined) return undefined;
  const key = typeof value === 'string' ? value.trim() : '';
  keepSecret(key);
  if (!isUsableApiKey(key)) refuse('TEMPORAL_API_KEY', 'api_key', `must be ${KEY_RULE}`);
  return key;
}

/** Header names that both clients can send: gRPC's rule for metadata that is not binary. */
const HEADER_NAME = /^[0-9a-z_.-]+(?<!-bin)$/;

function checkHeaders(
  headers: Record<string, unknown> | undefined,
  variables: Environment,
  refuse: Refuse,
): Record<string, string> | undefined {
  const check = ([name, value]: [string, unknown]): [string, string] => {
    const text = String(value).trim();
    keepHeader(name, text);
    // The same conversion as in Temporal's library.
    const toName = (variable: string) => variable.slice(HEADER_PREFIX.length).toLowerCase().replace('_', '-');
    const isVariable = (variable: string) => variable.startsWith(HEADER_PREFIX) && toName(variable) === name;
    const refuseHeader = (rule: string) =>
      refuse(
        Object.keys(variables).find(isVariable) ?? HEADER_PREFIX,
        `grpc_meta.${JSON.stringify(name)}`,
        `must be ${rule}`,
      );
    if (!HEADER_NAME.test(name)) refuseHeader('named by letters, digits, -, _ and ., not ending with -bin');
    // An empty header removes one of the profile. A short key could not be masked.
    const isShort = text !== '' && withoutScheme(text).length < MIN_API_KEY_LENGTH;
    if (typeof value !== 'string' || !isAscii(text)) refuseHeader('printable ASCII characters');
    else if (isAuthorization(name) && isShort) refuseHeader(`a key of ${MIN_API_KEY_LENGTH} characters or more`);
    return [name, text];
  };
  return headers && Object.fromEntries(Object.entries(headers).map(check));
}

/**
 * Checks certificates and keys, which Temporal's clients refuse without naming them. Returns them without byte order
 * marks.
 */
function checkTls(tls: ClientConfigTLS | undefined, refuse: Refuse): ClientConfigTLS | undefined {
  if (tls === undefined || tls.disabled === true) return tls;
  const { clientCert, clientKey, serverCACert, ...others } = tls;
  const refusePart = (part: string, rule: string) => refuse(`TEMPORAL_TLS_${part}`.toUpperCase(), `tls.${part}`, rule);
  if ((clientCert === undefined) !== (clientKey === undefined)) {
    const missing = clientCert === undefined ? 'client_cert_path' : 'client_key_path';
    refusePart(missing, 'is required: set both a client certificate and its key');
  }
  if (others.serverName !== undefined && !/^[\x21-\x7e]+$/.test(others.serverName)) {
    refusePart('server_name', 'must be printable ASCII characters without spaces');
  }
  const read = <T>(name: string, source: ConfigDataSource | undefined, what: string, parse: (pem: Buffer) => T) => {
    if (source === undefined) return {};
    const part = `${name}_${'path' in source ? 'path' : 'data'}`;
    try {
      const pem = withoutBom('path' in source ? readFileSync(source.path) : Buffer.from(source.data));
      return { part, parsed: parse(Buffer.from(pem)), source: { data: new Uint8Array(pem) } };
    } catch (error) {
      const why = error instanceof NotUtf8Error ? `: it is ${error.message}` : '';
      const rule = `must ${'path' in source ? 'name a file that holds' : 'be'} ${what} in PEM${why}`;
      const cannotBeRead = error instanceof Error && 'syscall' in error;
      refusePart(part, cannotBeRead ? `must be the path of a readable file: ${codeOf(error)}` : rule);
      return {};
    }
  };
  const toCertificate = (pem: Buffer) => new X509Certificate(pem);
  const authority = read('server_ca_cert', serverCACert, 'a certificate', toCertificate);
  const own = read('client_cert', clientCert, 'a certificate', toCertificate);
  const key = read('client_key', clientKey, 'a private key without a passphrase', (pem) => {
    keepPrivateKey(pem.toString('utf8'));
    return createPrivateKey(pem);
  });
  if (own.parsed && key.parsed && !own.parsed.checkPrivateKey(key.parsed)) {
    refusePart(key.part, 'must be the key of the certificate');
  }
  return { ...others, ...defined({ serverCACert: authority.source, clientCert: own.source, clientKey: key.source }) };
}

function readAddress(settings: SettingsReader, text = DEFAULT_ADDRESS): string {
  const { host, port = 7233 } = parseAddress(text) ?? {};
  if (host !== undefined) return `${host}:${port}`;
  // Text before an @ may be a password.
  const shown = text.includes('@') ? undefined : text;
  settings.refuse('TEMPORAL_ADDRESS', 'must be a host and a port, such as localhost:7233', shown);
  return DEFAULT_ADDRESS;
}

function isLoopback(address: string): boolean {
  return isLoopbackHost(parseAddress(address)?.host ?? address);
}

function isAuthorization(name: string): boolean {
  return name.toLowerCase() === 'authorization';
}

function isAscii(value: unknown): value is string {
  return typeof value === 'string' && /^[\x20-\x7e]*$/.test(value);
}

/** A TOML error quotes the surrounding lines, which may contain the API key. */
function describeLoadError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ('line' in error) return `the configuration file is not TOML, see line ${String(error.line)}`;
  if (!('syscall' in error)) return error.message;
  return `the configuration file${'path' in error ? ` ${String(error.path)}` : ''} cannot be read: ${codeOf(error)}`;
}
