import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { type ClientConfigProfile, loadClientConfigProfile, toClientOptions } from '@temporalio/envconfig';
import type { NativeConnectionOptions } from '@temporalio/worker';
import { isLoopbackHost } from '../agent-jobs/base-url.js';
import { defined } from '../contract/defined.js';
import { readKeyFile } from './agent-jobs-config.js';
import { type Environment, SettingsReader } from './settings-reader.js';

/** How to reach Temporal. */
export interface TemporalConfig {
  /** Host and port of the frontend. @default 'localhost:7233' */
  address: string;
  /** @default 'default' */
  namespace: string;
  /**
   * For `Connection.connect` and `NativeConnection.connect`. Each call reads the files again, so that a new key or
   * certificate is in the result; the address stays. A function also keeps keys and certificates out of a logged or
   * inspected configuration.
   *
   * @throws ConfigError when a file can no longer be used
   */
  connectionOptions: () => TemporalConnectionOptions;
  /** Absolute path of the module that exports the data converter. @default Temporal's own data converter */
  dataConverterModule?: string;
}

export type TemporalConnectionOptions = Pick<NativeConnectionOptions, 'tls' | 'apiKey' | 'metadata'> & {
  address: string;
};

const DEFAULT_ADDRESS = 'localhost:7233';
const DEFAULT_NAMESPACE = 'default';
const DEFAULT_PORT = 7233;
/** A name, an IPv4 address, or an IPv6 address in brackets, and optionally a port. */
const ADDRESS_PATTERN = /^(\[[0-9a-fA-F:.]+\]|[^\s:/@?#[\]]+)(?::(\d{1,5}))?$/;

/** Reads `TEMPORAL_*`, the profile and the configuration file with Temporal's own library, and checks the result. */
export function readTemporalConfig(settings: SettingsReader, env: Environment): TemporalConfig {
  const dataConverterModule = readModulePath(settings, 'FOLLOW_UP_DATA_CONVERTER');
  const { namespace, options } = readConnection(settings, env);
  const { address } = options;
  return {
    address,
    namespace,
    connectionOptions: () => {
      const again = new SettingsReader(env);
      const { options: current } = readConnection(again, env);
      again.throwIfBad();
      return { ...current, address };
    },
    ...defined({ dataConverterModule }),
  };
}

function readConnection(
  settings: SettingsReader,
  env: Environment,
): { namespace: string; options: TemporalConnectionOptions } {
  const fallback = { namespace: DEFAULT_NAMESPACE, options: { address: DEFAULT_ADDRESS } };
  if (!isConfigFileReadable(settings)) return fallback;
  const keyOfFile = readKeyFile(settings, 'TEMPORAL_API_KEY_FILE');
  try {
    const profile = loadClientConfigProfile({
      overrideEnvVars: { ...withoutEmpty(env), ...defined({ TEMPORAL_API_KEY: keyOfFile }) },
    });
    checkCertificatePair(settings, profile);
    const { connectionOptions, namespace = DEFAULT_NAMESPACE } = toClientOptions(profile);
    const address = readAddress(settings, connectionOptions.address);
    const { tls, apiKey, metadata } = connectionOptions;
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

export function usesTls(tls: TemporalConnectionOptions['tls']): boolean {
  return tls !== undefined && tls !== null && tls !== false;
}

/** The library treats a missing file as an empty one, even if it was named explicitly. */
function isConfigFileReadable(settings: SettingsReader): boolean {
  const name = 'TEMPORAL_CONFIG_FILE';
  return settings.text(name) === undefined || settings.fileText(name) !== undefined;
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

function checkCertificatePair(settings: SettingsReader, { tls }: ClientConfigProfile): void {
  if ((tls?.clientCert === undefined) === (tls?.clientKey === undefined)) return;
  const missing = tls?.clientCert === undefined ? 'TEMPORAL_TLS_CLIENT_CERT_PATH' : 'TEMPORAL_TLS_CLIENT_KEY_PATH';
  settings.refuse(missing, 'is required: a client certificate and its key are given together');
}

/** Host and port, with the default port if none is given. */
function readAddress(settings: SettingsReader, text: string | undefined): string {
  if (text === undefined) return DEFAULT_ADDRESS;
  const match = ADDRESS_PATTERN.exec(text);
  if (match === null || Number(match[2] ?? DEFAULT_PORT) > 65_535) {
    settings.refuse('TEMPORAL_ADDRESS', 'must be a host and a port, such as localhost:7233', text);
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
 * Compose files and shells write "not set" as an empty text. An empty header is kept: it removes one that the profile
 * sets.
 */
function withoutEmpty(env: Environment): Record<string, string> {
  const entries = Object.entries(env).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && (entry[1] !== '' || entry[0].startsWith('TEMPORAL_GRPC_META_')),
  );
  return Object.fromEntries(entries);
}

/** A TOML error quotes the lines around it, which may contain the API key. */
function describeLoadError(error: unknown): string {
  if (error instanceof Error && 'line' in error)
    return `the configuration file is not TOML, see line ${String(error.line)}`;
  return error instanceof Error ? error.message : String(error);
}
