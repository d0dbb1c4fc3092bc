import type { WorkerDeploymentVersion } from '@temporalio/common';
import { KEY_RULE, parseKeyFile, parseKeysFile } from '../agent-jobs/api-keys.js';
import { isLoopbackHost } from '../agent-jobs/base-url.js';
import { parseTargets, TARGETS_RULE } from '../webhooks/targets.js';
import { clientSettings, statOf, versionSettings, workerSettings } from './settings.js';
import { type Environment, readSettings, type SettingsReader, type Values } from './settings-reader.js';
import { readTemporalConfig, type TemporalConfig } from './temporal-config.js';

export { isLoopbackHost } from '../agent-jobs/base-url.js';
export { logLevels, type StatusAddress } from './settings.js';
export { ConfigError, type Environment } from './settings-reader.js';
export { describeIgnoredProxies, type TemporalConfig } from './temporal-config.js';
export { createWorkerIdentity, readWorkerIdentity, sharedSettings } from './worker-identity.js';

/** Configuration of commands that start and manage follow-ups. */
type ClientConfig = Omit<Values<typeof clientSettings>, 'budget'> & {
  temporal: TemporalConfig;
  budget: Record<keyof typeof clientSettings.budget, number>;
};

/** Configuration of a worker. All durations are in milliseconds. */
export interface WorkerConfig extends Values<typeof workerSettings>, ClientConfig {
  /**
   * The worker's version for Temporal's Worker Versioning: workflow runs stay on the version that they started on.
   *
   * @default none: a workflow continues on any worker
   */
  version?: WorkerDeploymentVersion;
  /** Security warnings, which the worker logs and `follow-up doctor` shows. */
  warnings: readonly string[];
  /** Time from a grant until its sender has certainly stopped: send timeout + {@link LEASE_SLACK_MS}. */
  leaseMs: number;
}

export type LoggingConfig = WorkerConfig['logging'];
export type LogLevel = LoggingConfig['level'];

/**
 * Time between the send's own deadline and the lease, for a process that is slow to start or stop
 * (docs/explanation/architecture.md, "Slots").
 */
export const LEASE_SLACK_MS = 30_000;

/**
 * Loads the worker's configuration.
 *
 * @param env environment variables, including {@link
 *   https://docs.temporal.io/references/client-environment-configuration
 *
 * Temporal's}
 * @param defaultLogFormat default of `FOLLOW_UP_LOG_FORMAT`
 * @throws {@link ConfigError} that names every invalid setting
 */
export function loadConfig(env: Environment, defaultLogFormat: LoggingConfig['format'] = 'json'): WorkerConfig {
  return readSettings(env, (settings) => {
    const values = settings.readAll(workerSettings);
    checkAgentJobs(settings, values.agentJobs);
    checkWebhooks(settings);
    const version = readVersion(settings);
    return {
      ...readClientConfig(settings),
      ...values,
      logging: {
        ...values.logging,
        format: settings.read({ ...workerSettings.logging.format, fallback: defaultLogFormat }),
      },
      ...(version && { version }),
      warnings: readSecurityWarnings(settings),
      leaseMs: values.agentJobs.sendTimeoutMs + LEASE_SLACK_MS,
    };
  });
}

/** Loads only the connection to Temporal. @throws {@link ConfigError}, as {@link loadConfig} */
export function loadTemporalConfig(env: Environment): TemporalConfig {
  return readSettings(env, readTemporalConfig);
}

/** Loads the configuration of commands that start and manage follow-ups. @throws {@link ConfigError} */
export function loadClientConfig(env: Environment): ClientConfig {
  return readSettings(env, readClientConfig);
}

function readClientConfig(settings: SettingsReader): ClientConfig {
  const { taskQueue, budget } = settings.readAll(clientSettings);
  const { limit, reserve, maxLimit = limit } = budget;
  const { reserve: reserveSetting, maxLimit: maxLimitSetting } = clientSettings.budget;
  if (reserve >= limit) {
    settings.refuse(reserveSetting.name, `must be less than FOLLOW_UP_BUDGET_LIMIT, ${limit}`, String(reserve));
  }
  if (maxLimit < limit) {
    settings.refuse(maxLimitSetting.name, `must be at least FOLLOW_UP_BUDGET_LIMIT, ${limit}`, String(maxLimit));
  }
  return { temporal: readTemporalConfig(settings), taskQueue, budget: { ...budget, maxLimit } };
}

function readVersion(settings: SettingsReader): WorkerDeploymentVersion | undefined {
  const { deploymentName, buildId } = settings.readAll(versionSettings);
  if (deploymentName !== undefined && buildId !== undefined) return { deploymentName, buildId };
  const [name, build] = [versionSettings.deploymentName.name, versionSettings.buildId.name];
  if (deploymentName !== undefined) settings.refuse(name, `also needs ${build}`, deploymentName);
  if (buildId !== undefined) settings.refuse(build, `also needs ${name}`, buildId);
  return undefined;
}

/** Refuses missing and unsafe settings, and unusable files of keys. */
function checkAgentJobs(settings: SettingsReader, { baseUrl, allowHttp }: WorkerConfig['agentJobs']): void {
  const names = workerSettings.agentJobs;
  const { key, keyFile, keysFile } = names.apiKeys;
  if (settings.text(names.baseUrl.name) === undefined) {
    const rule = 'is required: address of the agent job service, such as https://api.example.com';
    settings.refuse(names.baseUrl.name, rule);
  }
  if (baseUrl.startsWith('http:') && !isLoopbackHost(new URL(baseUrl).hostname) && !allowHttp) {
    const why = 'over http, anyone on the network can read the API key; AGENT_JOBS_ALLOW_HTTP=true allows it';
    settings.refuse(names.baseUrl.name, `must start with https://: ${why}`, baseUrl);
  }
  if ([key, keyFile, keysFile].every(({ name }) => settings.text(name) === undefined)) {
    settings.refuse(key.name, `is required, or ${keyFile.name}, or ${keysFile.name} instead`);
  }
  settings.file(keyFile.name, parseKeyFile, `must hold one key, of ${KEY_RULE}`);
  const rule = `must hold JSON, { "projectId": "key" }, each key of ${KEY_RULE}`;
  settings.file(keysFile.name, parseKeysFile, rule);
}

/** Refuses an unusable file of webhook targets, and targets from two places. */
function checkWebhooks(settings: SettingsReader): void {
  const { targets, file } = workerSettings.webhooks;
  settings.file(file.name, parseTargets, `must hold ${TARGETS_RULE}`);
  if (settings.text(targets.name) !== undefined && settings.text(file.name) !== undefined) {
    settings.refuse(file.name, `excludes ${targets.name}`);
  }
}

const secretFiles = [
  'FOLLOW_UP_WEBHOOKS_FILE',
  'AGENT_JOBS_API_KEY_FILE',
  'AGENT_JOBS_API_KEYS_FILE',
  'TEMPORAL_API_KEY_FILE',
  'TEMPORAL_TLS_CLIENT_KEY_PATH',
];

/** Warns of settings that make a key or a connection easy to steal. An unreadable file is refused elsewhere. */
function readSecurityWarnings(settings: SettingsReader): string[] {
  const warnings = [];
  for (const name of secretFiles) {
    const path = settings.text(name);
    if (path === undefined || !isForEverybody(path)) continue;
    warnings.push(`${name}: every user of this machine can read ${path}; run chmod o= ${path}`);
  }
  if (settings.text('NODE_TLS_REJECT_UNAUTHORIZED') === '0') {
    warnings.push(
      'NODE_TLS_REJECT_UNAUTHORIZED=0: certificates are not checked, so anyone on the network can read the API key; unset it, and add your own authority with NODE_EXTRA_CA_CERTS',
    );
  }
  return warnings;
}

function isForEverybody(path: string): boolean {
  // Windows has no such bits, and reports the same mode for every file.
  if (process.platform === 'win32') return false;
  return ((statOf(path)?.mode ?? 0) & 0o007) !== 0;
}
