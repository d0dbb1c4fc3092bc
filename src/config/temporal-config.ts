import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  type ClientConfigProfile,
  type ClientConfigTLS,
  type ConfigDataSource,
  loadClientConfigProfile,
  toClientOptions,
} from '@temporalio/envconfig';
import type { NativeConnectionOptions } from '@temporalio/worker';
import { isUsableApiKey, MIN_API_KEY_LENGTH } from '../agent-jobs/api-keys.js';
import { isLoopbackHost } from '../agent-jobs/base-url.js';
import { defined } from '../contract/defined.js';
import { NotUtf8Error, withoutBom } from '../text-file.js';
import { KEY_RULE, readKeyFile } from './agent-jobs-config.js';
import { keepHeader, keepKey, keepPrivateKey, withoutScheme } from './environment-secrets.js';
import { codeOf, type Environment, SettingsReader } from './settings-reader.js';

/** How to reach Temporal. */
export interface TemporalConfig {
  /** Host and port of the frontend. @default 'localhost:7233' */
  address: string;
  /** @default 'default' */
  namespace: string;
  /**
   * For `Connection.connect` and `NativeConnection.connect`, as they were read at the start. A function, so that logging
   * or inspecting a configuration shows no key and no certificate.
   */
  connectionOptions: () => TemporalConnectionOptions;
  /**
   * Reads `TEMPORAL_API_KEY_FILE` again, if it is set.
   *
   * @throws ConfigError when the file cannot be used
   */
  readKeyFile?: () => string;
  /** Proxy variables that are set, and would lead to this address if they were not ignored. */
  ignoredProxies: readonly string[];
  /** Absolute path of the module that exports the data converter. @default Temporal's own data converter */
  dataConverterModule?: string;
}

type TemporalConnectionOptions = Pick<NativeConnectionOptions, 'tls' | 'apiKey' | 'metadata'> & {
  address: string;
};

const KEY_FILE = 'TEMPORAL_API_KEY_FILE';
const DEFAULT_ADDRESS = 'localhost:7233';
const DEFAULT_NAMESPACE = 'default';
const DEFAULT_PORT = 7233;
/** A name, an IPv4 address, or an IPv6 address in brackets, and optionally a port. */
const ADDRESS_PATTERN = /^(\[[0-9a-fA-F:.]+\]|[^\s:/@?#[\]]+)(?::(\d{1,5}))?$/;

const PROXIES = ['grpc_proxy', 'https_proxy', 'http_proxy', 'all_proxy'];
const PROXY_VARIABLES = [...PROXIES, ...PROXIES.map((name) => name.toUpperCase())];

/** Why a connection may fail where another program's works. Empty if no proxy variable is set. */
export function describeIgnoredProxies({ ignoredProxies }: Pick<TemporalConfig, 'ignoredProxies'>): string {
  if (ignoredProxies.length === 0) return '';
  return `; proxy variables are ignored for Temporal (${ignoredProxies.join(', ')})`;
}

/** Reads `TEMPORAL_*`, the profile and the configuration file with Temporal's own library, and checks the result. */
export function readTemporalConfig(settings: SettingsReader, env: Environment): TemporalConfig {
  const dataConverterModule = readModulePath(settings, 'FOLLOW_UP_DATA_CONVERTER');
  const { namespace, options } = readConnection(settings, env);
  const { address } = options;
  return {
    address,
    namespace,
    ignoredProxies: isLoopbackHost(hostOf(address)) ? [] : PROXY_VARIABLES.filter((name) => env[name]),
    connectionOptions: () => options,
    ...(settings.text(KEY_FILE) !== undefined && {
      readKeyFile: () => {
        const again = new SettingsReader(env);
        const key = readKeyFile(again, KEY_FILE) ?? '';
        again.throwIfBad();
        return key;
      },
    }),
    ...defined({ dataConverterModule }),
  };
}

function readConnection(
  settings: SettingsReader,
  env: Environment,
): { namespace: string; options: TemporalConnectionOptions } {
  const fallback = { namespace: DEFAULT_NAMESPACE, options: { address: DEFAULT_ADDRESS } };
  // Temporal's library treats a missing file as an empty one, even if it was named explicitly.
  const fileSetting = 'TEMPORAL_CONFIG_FILE';
  const hasFile = settings.text(fileSetting) !== undefined;
  if (hasFile && settings.file(fileSetting, (text) => text) === undefined) return fallback;
  const keyOfFile = readKeyFile(settings, KEY_FILE);
  const variables = { ...cleaned(settings, env), ...defined({ TEMPORAL_API_KEY: keyOfFile }) };
  try {
    const profile = loadClientConfigProfile({
      overrideEnvVars: variables,
      disableFile: hasNoUseForDefaultFile(variables),
    });
    const refuse: Refuse = (variable, field, rule) =>
      settings.refuse(variable, variable in variables ? rule : `${field} of the profile ${rule}`);
    const apiKey = readTemporalKey(profile.apiKey, refuse);
    const metadata = readHeaders(variables, profile.grpcMeta, refuse);
    const checkedTls = checkTls(profile, refuse);
    const { connectionOptions, namespace = DEFAULT_NAMESPACE } = toClientOptions({
      ...profile,
      ...defined({ apiKey, grpcMeta: metadata, tls: checkedTls }),
    });
    if (!isAscii(namespace)) refuse('TEMPORAL_NAMESPACE', 'namespace', 'must be printable ASCII characters');
    const address = readAddress(settings, connectionOptions.address);
    const { tls } = connectionOptions;
    const sendsKey = apiKey !== undefined || Object.keys(metadata ?? {}).some(isAuthorization);
    if (sendsKey && !usesTls(tls) && !isLoopbackHost(hostOf(address))) {
      settings.refuse('TEMPORAL_TLS', `must be on: the API key for ${address} could be read by anybody on the network`);
    }
    return { namespace, options: defined({ address, tls, apiKey, metadata }) };
  } catch (error) {
    settings.refuse('TEMPORAL_*', describeLoadError(error));
    return fallback;
  }
}

/** Records what is wrong with a value of the environment, or with a field of the profile. The value is not shown. */
type Refuse = (variable: string, field: string, rule: string) => void;

function readTemporalKey(value: unknown, refuse: Refuse): string | undefined {
  if (value === undefined) return undefined;
  const key = typeof value === 'string' ? value.trim() : '';
  keepKey(key);
  if (!isUsableApiKey(key)) refuse('TEMPORAL_API_KEY', 'api_key', `must be ${KEY_RULE}`);
  return key;
}

/** Prefix of the variables that set headers. */
const META = 'TEMPORAL_GRPC_META_';
/** What both clients can send as a header: gRPC's rule for metadata that is not binary. */
const HEADER_NAME = /^[0-9a-z_.-]+(?<!-bin)$/;

function readHeaders(variables: Environment, headers: unknown, refuse: Refuse): Record<string, string> | undefined {
  if (headers === undefined) return undefined;
  return Object.fromEntries(
    Object.entries(headers as Record<string, unknown>).map(([name, value]) => {
      const text = String(value).trim();
      keepHeader(name, text);
      const variable = Object.keys(variables).find((each) => each.startsWith(META) && headerNameOf(each) === name);
      const refuseHeader = (rule: string) => refuse(variable ?? META, `grpc_meta.${JSON.stringify(name)}`, rule);
      if (!HEADER_NAME.test(name)) refuseHeader('must be named by letters, digits, -, _ and ., not ending with -bin');
      if (typeof value !== 'string' || !isAscii(text)) refuseHeader('must be printable ASCII characters');
      else if (isAuthorization(name) && isShortKey(text))
        refuseHeader(`must be a key of ${MIN_API_KEY_LENGTH} characters or more`);
      return [name, text];
    }),
  );
}

/** As Temporal's library makes the name of a header from that of a variable. */
function headerNameOf(variable: string): string {
  return variable.slice(META.length).toLowerCase().replace('_', '-');
}

/** Too short to be masked. An empty header removes one of the profile. */
function isShortKey(header: string): boolean {
  return header !== '' && withoutScheme(header).length < MIN_API_KEY_LENGTH;
}

function isAscii(value: unknown): value is string {
  return typeof value === 'string' && /^[\x20-\x7e]*$/.test(value);
}

/**
 * Checks certificates and keys, which Temporal's clients refuse without naming them. Returns what was read, without byte
 * order marks.
 */
function checkTls({ tls }: ClientConfigProfile, refuse: Refuse): ClientConfigTLS | undefined {
  if (tls === undefined || tls.disabled === true) return tls;
  const { clientCert, clientKey, serverCACert, ...others } = tls;
  const refusePart = (name: string, kind: string, rule: string) =>
    refuse(`TEMPORAL_TLS_${name}_${kind}`.toUpperCase(), `tls.${name}_${kind}`, rule);
  if ((clientCert === undefined) !== (clientKey === undefined)) {
    const missing = clientCert === undefined ? 'client_cert' : 'client_key';
    refusePart(missing, 'path', 'is required: a client certificate and its key are given together');
  }
  if (others.serverName !== undefined && !/^[\x21-\x7e]+$/.test(others.serverName)) {
    refuse('TEMPORAL_TLS_SERVER_NAME', 'tls.server_name', 'must be printable ASCII characters without spaces');
  }
  const read = <T>(name: string, source: ConfigDataSource | undefined, what: string, parse: (pem: Buffer) => T) => {
    if (source === undefined) return {};
    const kind = 'path' in source ? 'path' : 'data';
    let pem: Buffer;
    try {
      pem = 'path' in source ? readFileSync(source.path) : Buffer.from(source.data);
    } catch (error) {
      refusePart(name, kind, `must be the path of a file that can be read: ${codeOf(error)}`);
      return {};
    }
    try {
      const data = withoutBom(pem);
      return { kind, parsed: parse(Buffer.from(data)), source: { data: new Uint8Array(data) } };
    } catch (error) {
      const why = error instanceof NotUtf8Error ? `: it is ${error.message}` : '';
      refusePart(name, kind, `must ${kind === 'path' ? 'name a file that holds' : 'be'} ${what} in PEM${why}`);
      return {};
    }
  };
  const certificate = (pem: Buffer) => new X509Certificate(pem);
  const authority = read('server_ca_cert', serverCACert, 'a certificate', certificate);
  const own = read('client_cert', clientCert, 'a certificate', certificate);
  const key = read('client_key', clientKey, 'a private key without a passphrase', (pem): KeyObject => {
    keepPrivateKey(pem.toString('utf8'));
    return createPrivateKey(pem);
  });
  if (own.parsed !== undefined && key.parsed !== undefined && !own.parsed.checkPrivateKey(key.parsed)) {
    refusePart('client_key', key.kind, 'must be the key of the certificate');
  }
  return { ...others, ...defined({ serverCACert: authority.source, clientCert: own.source, clientKey: key.source }) };
}

function usesTls(tls: TemporalConnectionOptions['tls']): boolean {
  return tls !== undefined && tls !== null && tls !== false;
}

/** An absolute path; a relative one starts at the working directory. */
function readModulePath(settings: SettingsReader, name: string): string | undefined {
  const text = settings.text(name);
  if (text === undefined) return undefined;
  const path = resolve(text);
  if (statSync(path, { throwIfNoEntry: false })?.isFile() !== true) {
    settings.refuse(name, 'must be the path of a JavaScript module', text);
  }
  return path;
}

/** Host and port, with the default port if none is given. */
function readAddress(settings: SettingsReader, text: string | undefined): string {
  if (text === undefined) return DEFAULT_ADDRESS;
  const match = ADDRESS_PATTERN.exec(text);
  if (match === null || Number(match[2] ?? DEFAULT_PORT) > 65_535) {
    // What is before an @ may be a password.
    const shown = text.includes('@') ? undefined : text;
    settings.refuse('TEMPORAL_ADDRESS', 'must be a host and a port, such as localhost:7233', shown);
    return DEFAULT_ADDRESS;
  }
  return match[2] === undefined ? `${text}:${DEFAULT_PORT}` : text;
}

function hostOf(address: string): string {
  return ADDRESS_PATTERN.exec(address)?.[1] ?? address;
}

function isAuthorization(name: string): boolean {
  return name.toLowerCase() === 'authorization';
}

/**
 * The environment as Temporal's library reads it. Compose files and shells write "not set" as an empty text, and leave
 * line ends at values. An empty header is kept: it removes one that the profile sets.
 */
function cleaned(settings: SettingsReader, env: Environment): Record<string, string> {
  const entries = Object.entries(env).flatMap(([name, value]): [string, string][] => {
    if (value === undefined) return [];
    const text = name.startsWith('TEMPORAL_') ? value.trim() : value;
    return text !== '' || name.startsWith(META) ? [[name, text]] : [];
  });
  const tls = settings.text('TEMPORAL_TLS');
  if (tls !== undefined) {
    // Temporal's library takes every other spelling for false.
    if (!/^(?:true|false|1|0)$/i.test(tls)) settings.refuse('TEMPORAL_TLS', 'must be true or false', tls);
    entries.push(['TEMPORAL_TLS', tls.toLowerCase()]);
  }
  return Object.fromEntries(entries);
}

/**
 * Whether the environment alone says where Temporal is, and the file that Temporal's library reads by default cannot be
 * read: in a container, the home directory may be somebody else's.
 */
function hasNoUseForDefaultFile(variables: Record<string, string>): boolean {
  const { TEMPORAL_ADDRESS: address, TEMPORAL_CONFIG_FILE: file, TEMPORAL_PROFILE: profile } = variables;
  if (address === undefined || file !== undefined || profile !== undefined) return false;
  try {
    loadClientConfigProfile({ overrideEnvVars: variables, disableEnv: true });
    return false;
  } catch (error) {
    return codeOf(error) !== 'error';
  }
}

/** A TOML error quotes the lines around it, which may contain the API key. */
function describeLoadError(error: unknown): string {
  if (error instanceof Error && 'line' in error)
    return `the configuration file is not TOML, see line ${String(error.line)}`;
  if (error instanceof Error && 'syscall' in error) {
    const path = 'path' in error ? ` ${String(error.path)}` : '';
    return `the configuration file${path} cannot be read: ${codeOf(error)}`;
  }
  return error instanceof Error ? error.message : String(error);
}
