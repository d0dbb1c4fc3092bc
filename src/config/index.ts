import type { WorkerDeploymentVersion } from '@temporalio/common';
import { z } from 'zod';
import { DEFAULT_TASK_QUEUE, durationSchema, idSchema } from '../contract/index.js';
import type { BudgetSettings } from '../contract/protocol.js';
import { type ApiKeySettings, readApiKeySettings, readBaseUrl, readSecurityWarnings } from './agent-jobs-config.js';
import { type Environment, type Setting, SettingsReader } from './settings-reader.js';
import { readTemporalConfig, type TemporalConfig } from './temporal-config.js';

export { isLoopbackHost } from '../agent-jobs/base-url.js';
export { ConfigError } from './settings-reader.js';
export type { ApiKeySettings } from './agent-jobs-config.js';
export type { Environment } from './settings-reader.js';
export { describeIgnoredProxies } from './temporal-config.js';
export type { TemporalConfig } from './temporal-config.js';

/** pino's levels, from the most to the fewest lines. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

/** `pretty` is for people at a terminal. */
export const logFormats = ['json', 'pretty'] as const;
export type LogFormat = (typeof logFormats)[number];

/** Where `/healthz`, `/readyz` and `/metrics` are served. */
export interface StatusAddress {
  host: string;
  /** 0 takes any free port. */
  port: number;
}

export interface LoggingConfig {
  level: LogLevel;
  format: LogFormat;
}

/** What commands need that start and manage follow-ups. */
interface ClientConfig {
  temporal: TemporalConfig;
  /** Task queue of the follow-ups. The name of the budgets' queue is derived from it. */
  taskQueue: string;
  /** Settings of a new project's budget. No budget gets more than `maxLimit` messages per `windowMs`. */
  budget: BudgetSettings & { maxLimit: number };
}

/** The whole configuration of a worker. All durations are in milliseconds. */
export interface WorkerConfig extends ClientConfig {
  agentJobs: {
    /** Without a trailing slash. */
    baseUrl: string;
    apiKeys: ApiKeySettings;
    getTimeoutMs: number;
    /** Deadline of one POST, from connecting to the last byte of the answer. */
    sendTimeoutMs: number;
  };
  /**
   * The worker's version for Temporal's Worker Versioning: workflow runs stay on the version that they began on.
   *
   * @default none: a workflow continues on any worker
   */
  version?: WorkerDeploymentVersion;
  /**
   * How much a worker does at once and keeps in memory. docs/how-to/run-in-production.md, "6. Size it", explains how to
   * choose the numbers.
   */
  capacity: Record<'cachedWorkflows' | 'workflowTasks' | 'activities' | 'watches' | 'pollers', number>;
  projects: '*' | readonly string[];
  /** Security warnings for people. The worker logs them, and `follow-up doctor` shows them. */
  warnings: readonly string[];
  /** Time from a grant until its sender has certainly stopped: send timeout + {@link LEASE_SLACK_MS}. */
  leaseMs: number;
  /** How long after the lease bytes may still arrive, because of kernel retransmits or gateways. */
  drainMs: number;
  /** `undefined`: off. */
  status: StatusAddress | undefined;
  logging: LoggingConfig;
}

/**
 * Time between the send's own deadline and the lease, for a process that is slow to start or to stop
 * (docs/explanation/architecture.md, "Slots").
 */
export const LEASE_SLACK_MS = 30_000;

const countSchema = (min: number, max: number) => {
  const rule = `must be a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,9}$/, rule)
    .transform(Number)
    .refine((count) => count >= min && count <= max, rule);
};

/** In the environment, whole numbers are text too. */
const durationSetting = (min: string, max: string) =>
  z
    .string()
    .transform((text) => (/^\d+$/.test(text) ? Number(text) : text))
    .pipe(durationSchema(min, max));

const oneOf = <const T extends readonly string[]>(values: T) =>
  z.enum(values, { error: `must be one of ${values.join(', ')}` });

/** The server limits names of task queues to 1,000 bytes, and `-budget` is appended to this one. */
const taskQueueSchema = z
  .string()
  .max(200, 'must be at most 200 characters')
  .refine((name) => !name.startsWith('/_sys/'), 'must not begin with /_sys/, which Temporal keeps for itself');

/** A name without the characters that separate the two parts of a version, or end a text in a query. */
const versionSchema = (mark: '/' | '.') =>
  z
    .string()
    .regex(
      new RegExp(`^[a-z\\d][\\w${mark}-]{0,199}$`, 'i'),
      `must be at most 200 letters, digits, -, _ or ${mark}, and begin with a letter or digit`,
    );

const statusSchema = z.string().transform((text, context): StatusAddress | undefined => {
  if (text === 'off') return undefined;
  const match = /^(\[[0-9a-fA-F:.]+\]|[^:[\]\s/]+):(\d{1,5})$/.exec(text);
  const port = Number(match?.[2]);
  if (match?.[1] !== undefined && port <= 65_535) return { host: match[1].replace(/^\[|\]$/g, ''), port };
  context.addIssue({ code: 'custom', message: 'must be a host and a port, such as 127.0.0.1:9464, or off' });
  return z.NEVER;
});

const projectsSchema = z.string().transform((text, context): '*' | readonly string[] => {
  if (text === '*') return '*';
  const projects = text.split(',').map((project) => project.trim());
  const bad = projects.find((project) => !idSchema.safeParse(project).success);
  if (bad === undefined) return projects;
  const message = `must be * or project ids with commas between, not ${JSON.stringify(bad)}`;
  context.addIssue({ code: 'custom', message });
  return z.NEVER;
});

const setting = <T>(name: string, fallback: T, schema: z.ZodType<T>): Setting<T> => ({ name, fallback, schema });

/**
 * The worker's settings with their defaults, besides those of Temporal, of the service's address and of its keys. The
 * numbers come from docs/explanation/architecture.md and the service's own limit.
 */
export const settings = {
  taskQueue: setting('FOLLOW_UP_TASK_QUEUE', DEFAULT_TASK_QUEUE, taskQueueSchema),
  budgetLimit: setting('FOLLOW_UP_BUDGET_LIMIT', 100, countSchema(1, 10_000)),
  budgetWindowMs: setting('FOLLOW_UP_BUDGET_WINDOW', 3_600_000, durationSetting('1s', '31d')),
  budgetReserve: setting('FOLLOW_UP_BUDGET_RESERVE', 0, countSchema(0, 10_000)),
  /** By default, the limit. */
  budgetMaxLimit: setting<number | undefined>('FOLLOW_UP_BUDGET_MAX_LIMIT', undefined, countSchema(1, 10_000)),
  marginMs: setting('FOLLOW_UP_MARGIN', 2_000, durationSetting('0s', '5m')),
  drainMs: setting('FOLLOW_UP_DRAIN', 120_000, durationSetting('0s', '1h')),
  /** With more than 7 s, the local activity would last longer than 8 s, which costs 3 more events per read. */
  getTimeoutMs: setting('AGENT_JOBS_GET_TIMEOUT', 5_000, durationSetting('100ms', '7s')),
  sendTimeoutMs: setting('FOLLOW_UP_SEND_TIMEOUT', 30_000, durationSetting('100ms', '5m')),
  projects: setting<'*' | readonly string[]>('FOLLOW_UP_PROJECTS', '*', projectsSchema),
  /**
   * Follow-ups, batches and parts. One that has left the cache is replayed at its next task. A follow-up has about six,
   * most of them in the seconds around its send, and sleeps between them.
   */
  cachedWorkflows: setting('FOLLOW_UP_CACHED_WORKFLOWS', 300, countSchema(1, 100_000)),
  /**
   * At once. A task that reads a job holds its slot during the GET. All share one thread. With 400 of them and 10,000 follow-ups at once on 2 cores, tasks waited for the thread until
   * they timed out after 10 s. 100 are 20 reads before a send per second if every GET takes 5 s; the SDK's 40 are 8.
   */
  workflowTasks: setting('FOLLOW_UP_WORKFLOW_TASKS', 100, countSchema(2, 10_000)),
  /** At once, besides the watches that sleep. A budget allows 10 unsettled sends, and 500 are 100 polls a second if every GET takes 5 s. */
  activities: setting('FOLLOW_UP_ACTIVITIES', 500, countSchema(2, 10_000)),
  /** That sleep in this process. The server's timers wait for the others. */
  watches: setting('FOLLOW_UP_WATCHES', 2_000, countSchema(0, 100_000)),
  /** Polls for workflow tasks at once; half as many for activities. Twice the SDK's default: tasks are short. */
  pollers: setting('FOLLOW_UP_POLLERS', 20, countSchema(2, 200)),
  deploymentName: setting<string | undefined>('TEMPORAL_DEPLOYMENT_NAME', undefined, versionSchema('/')),
  buildId: setting<string | undefined>('TEMPORAL_WORKER_BUILD_ID', undefined, versionSchema('.')),
  status: setting<StatusAddress | undefined>(
    'FOLLOW_UP_STATUS_ADDRESS',
    { host: '127.0.0.1', port: 9464 },
    statusSchema,
  ),
  logLevel: setting<LogLevel>('FOLLOW_UP_LOG_LEVEL', 'info', oneOf(logLevels)),
  logFormat: setting<LogFormat>('FOLLOW_UP_LOG_FORMAT', 'json', oneOf(logFormats)),
};

/**
 * The worker's configuration.
 *
 * @param env environment variables, all of {@link https://docs.temporal.io/references/client-environment-configuration
 * |
 *   Temporal's} among them
 * @param defaultLogFormat for when `FOLLOW_UP_LOG_FORMAT` is not set
 * @throws {@link ConfigError} that names every bad setting at once
 */
export function loadConfig(env: Environment, defaultLogFormat: LogFormat = settings.logFormat.fallback): WorkerConfig {
  const reader = new SettingsReader(env);
  const sendTimeoutMs = reader.read(settings.sendTimeoutMs);
  const version = readVersion(reader);
  const config: WorkerConfig = {
    ...readClientConfig(reader, env),
    agentJobs: {
      baseUrl: readBaseUrl(reader),
      apiKeys: readApiKeySettings(reader),
      getTimeoutMs: reader.read(settings.getTimeoutMs),
      sendTimeoutMs,
    },
    ...(version && { version }),
    capacity: {
      cachedWorkflows: reader.read(settings.cachedWorkflows),
      workflowTasks: reader.read(settings.workflowTasks),
      activities: reader.read(settings.activities),
      watches: reader.read(settings.watches),
      pollers: reader.read(settings.pollers),
    },
    projects: reader.read(settings.projects),
    warnings: readSecurityWarnings(reader),
    leaseMs: sendTimeoutMs + LEASE_SLACK_MS,
    drainMs: reader.read(settings.drainMs),
    status: reader.read(settings.status),
    logging: {
      level: reader.read(settings.logLevel),
      format: reader.read({ ...settings.logFormat, fallback: defaultLogFormat }),
    },
  };
  reader.throwIfBad();
  return config;
}

/**
 * How to reach Temporal, for commands that need nothing else.
 *
 * @throws {@link ConfigError} that names every bad setting at once
 */
export function loadTemporalConfig(env: Environment): TemporalConfig {
  const reader = new SettingsReader(env);
  const temporal = readTemporalConfig(reader, env);
  reader.throwIfBad();
  return temporal;
}

/**
 * The configuration of commands that start and manage follow-ups.
 *
 * @throws {@link ConfigError} that names every bad setting at once
 */
export function loadClientConfig(env: Environment): ClientConfig {
  const reader = new SettingsReader(env);
  const config = readClientConfig(reader, env);
  reader.throwIfBad();
  return config;
}

function readClientConfig(reader: SettingsReader, env: Environment): ClientConfig {
  const limit = reader.read(settings.budgetLimit);
  const reserve = reader.read(settings.budgetReserve);
  const maxLimit = reader.read(settings.budgetMaxLimit) ?? limit;
  if (reserve >= limit) {
    const rule = `must be less than FOLLOW_UP_BUDGET_LIMIT, ${limit}`;
    reader.refuse(settings.budgetReserve.name, rule, String(reserve));
  }
  if (maxLimit < limit) {
    const rule = `must be at least FOLLOW_UP_BUDGET_LIMIT, ${limit}`;
    reader.refuse(settings.budgetMaxLimit.name, rule, String(maxLimit));
  }
  const windowMs = reader.read(settings.budgetWindowMs);
  return {
    temporal: readTemporalConfig(reader, env),
    taskQueue: reader.read(settings.taskQueue),
    budget: { limit, windowMs, reserve, marginMs: reader.read(settings.marginMs), maxLimit },
  };
}

function readVersion(reader: SettingsReader): WorkerDeploymentVersion | undefined {
  const [deploymentName, buildId] = [reader.read(settings.deploymentName), reader.read(settings.buildId)];
  if (deploymentName !== undefined && buildId !== undefined) return { deploymentName, buildId };
  const [name, build] = [settings.deploymentName.name, settings.buildId.name];
  if (deploymentName !== undefined) reader.refuse(name, `needs ${build}, too`, deploymentName);
  if (buildId !== undefined) reader.refuse(build, `needs ${name}, too`, buildId);
  return undefined;
}
