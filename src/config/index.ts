import type { WorkerDeploymentVersion } from '@temporalio/common';
import { z } from 'zod';
import { DEFAULT_TASK_QUEUE, durationSchema, idSchema } from '../contract/index.js';
import type { BudgetSettings } from '../contract/protocol.js';
import { type ApiKeySettings, readApiKeySettings, readBaseUrl, readSecurityWarnings } from './agent-jobs-config.js';
import { type Environment, SettingsReader } from './settings-reader.js';
import { readTemporalConfig, type TemporalConfig } from './temporal-config.js';

export { ConfigError } from './settings-reader.js';
export type { ApiKeySettings } from './agent-jobs-config.js';
export type { Environment } from './settings-reader.js';
export { describeIgnoredProxies } from './temporal-config.js';
export type { TemporalConfig, TemporalConnectionOptions } from './temporal-config.js';

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

/**
 * How much a worker does at once and keeps in memory. docs/how-to/run-in-production.md, "6. Size it", explains how to
 * choose the numbers.
 */
export interface WorkerCapacity {
  /** Follow-ups, batches and parts in the cache. One that has left the cache is replayed at its next task. */
  cachedWorkflows: number;
  /** Workflow tasks at once. A task that reads a job holds its slot during the GET. */
  workflowTasks: number;
  /** Activities at once, besides the watches that sleep. */
  activities: number;
  /** Watches that sleep in this process. The server's timers wait for the others. */
  watches: number;
  /** Polls for workflow tasks that wait at the server at once. For activities there are half as many. */
  pollers: number;
}

/** Settings of a new project's budget, and the most that any budget may grant in a window. */
export type WorkerBudget = BudgetSettings & { maxLimit: number };

/** The whole configuration of a worker. All durations are in milliseconds. */
export interface WorkerConfig {
  temporal: TemporalConfig;
  agentJobs: {
    /** Without a trailing slash. */
    baseUrl: string;
    apiKeys: ApiKeySettings;
    getTimeoutMs: number;
    /** Deadline of one POST, from connecting to the last byte of the answer. */
    sendTimeoutMs: number;
  };
  /** Task queue of the follow-ups. The name of the budgets' queue is derived from it. */
  taskQueue: string;
  /**
   * The worker's version for Temporal's Worker Versioning: workflow runs stay on the version that they began on.
   *
   * @default none: a workflow continues on any worker
   */
  version?: WorkerDeploymentVersion;
  /** Settings of a new project's budget. No budget gets more than `maxLimit` messages per `windowMs`. */
  budget: WorkerBudget;
  capacity: WorkerCapacity;
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

/**
 * All defaults of the worker's settings. The numbers come from docs/explanation/architecture.md and the service's own
 * limit.
 */
export const configDefaults = {
  budgetLimit: 100,
  budgetWindowMs: 3_600_000,
  budgetReserve: 0,
  marginMs: 2_000,
  drainMs: 120_000,
  getTimeoutMs: 5_000,
  sendTimeoutMs: 30_000,
  status: { host: '127.0.0.1', port: 9464 },
  /**
   * Cache: a follow-up has about six tasks, most of them in the seconds around its send, and sleeps between them.
   * Tasks: all share one thread. With 400 of them and 10,000 follow-ups at once on 2 cores, tasks waited for the thread
   * until they timed out after 10 s. 100 are 20 reads before a send per second if every GET takes 5 s; the SDK's
   * default of 40 is 8. Activities: a budget allows 10 unsettled sends, and 500 are 100 polls a second if every GET
   * takes 5 s. Pollers: twice the SDK's default, because tasks are short.
   */
  capacity: { cachedWorkflows: 300, workflowTasks: 100, activities: 500, watches: 2_000, pollers: 20 },
  logLevel: 'info',
  logFormat: 'json',
} as const;

/** The server limits names of task queues to 1,000 bytes, and `-budget` is appended to this one. */
const taskQueueSchema = z
  .string()
  .max(200, 'must be at most 200 characters')
  .refine((name) => !name.startsWith('/_sys/'), 'must not begin with /_sys/, which Temporal keeps for itself');

/** Without the characters that separate the two parts of a version, or end a text in a query. */
const deploymentNameSchema = z
  .string()
  .regex(/^[a-z\d][\w/-]{0,199}$/i, 'must be at most 200 letters, digits, -, _ or /, and begin with a letter or digit');
const buildIdSchema = z
  .string()
  .regex(/^[a-z\d][\w.-]{0,199}$/i, 'must be at most 200 letters, digits, -, _ or ., and begin with a letter or digit');

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
  context.addIssue({
    code: 'custom',
    message: `must be * or project ids with commas between, not ${JSON.stringify(bad)}`,
  });
  return z.NEVER;
});

const oneOf = <const T extends readonly string[]>(values: T) =>
  z.enum(values, { error: `must be one of ${values.join(', ')}` });

/**
 * The worker's configuration.
 *
 * @param env environment variables, all of {@link https://docs.temporal.io/references/client-environment-configuration
 * |
 *   Temporal's} among them
 * @param defaultLogFormat for when `FOLLOW_UP_LOG_FORMAT` is not set
 * @throws {@link ConfigError} that names every bad setting at once
 */
export function loadConfig(env: Environment, defaultLogFormat: LogFormat = configDefaults.logFormat): WorkerConfig {
  const settings = new SettingsReader(env);
  const temporal = readTemporalConfig(settings, env);
  const baseUrl = readBaseUrl(settings);
  const apiKeys = readApiKeySettings(settings);
  const budget = readBudgetSettings(settings);
  const projects = settings.read<'*' | readonly string[]>('FOLLOW_UP_PROJECTS', projectsSchema, '*');
  const drainMs = settings.read('FOLLOW_UP_DRAIN', durationSetting('0s', '1h'), configDefaults.drainMs);
  // With more, the local activity would last longer than 8 s, which costs 3 more events per poll.
  const getTimeoutMs = settings.read(
    'AGENT_JOBS_GET_TIMEOUT',
    durationSetting('100ms', '7s'),
    configDefaults.getTimeoutMs,
  );
  const sendTimeoutMs = settings.read(
    'FOLLOW_UP_SEND_TIMEOUT',
    durationSetting('100ms', '5m'),
    configDefaults.sendTimeoutMs,
  );
  const taskQueue = settings.read('FOLLOW_UP_TASK_QUEUE', taskQueueSchema, DEFAULT_TASK_QUEUE);
  const version = readVersion(settings);
  const capacity = readCapacity(settings);
  const status = settings.read<StatusAddress | undefined>(
    'FOLLOW_UP_STATUS_ADDRESS',
    statusSchema,
    configDefaults.status,
  );
  const logging = {
    level: settings.read('FOLLOW_UP_LOG_LEVEL', oneOf(logLevels), configDefaults.logLevel),
    format: settings.read('FOLLOW_UP_LOG_FORMAT', oneOf(logFormats), defaultLogFormat),
  };
  settings.throwIfBad();
  const leaseMs = sendTimeoutMs + LEASE_SLACK_MS;
  return {
    temporal,
    agentJobs: { baseUrl, apiKeys, getTimeoutMs, sendTimeoutMs },
    taskQueue,
    ...(version && { version }),
    budget,
    capacity,
    projects,
    warnings: readSecurityWarnings(settings),
    leaseMs,
    drainMs,
    status,
    logging,
  };
}

/**
 * How to reach Temporal, for commands that need nothing else.
 *
 * @throws {@link ConfigError} that names every bad setting at once
 */
export function loadTemporalConfig(env: Environment): TemporalConfig {
  const settings = new SettingsReader(env);
  const temporal = readTemporalConfig(settings, env);
  settings.throwIfBad();
  return temporal;
}

/** What commands need that start and manage follow-ups. */
interface ClientConfig {
  temporal: TemporalConfig;
  /** Task queue of the follow-ups. */
  taskQueue: string;
  /** Settings of a new project's budget. */
  budget: WorkerBudget;
}

/**
 * The configuration of commands that start and manage follow-ups.
 *
 * @throws {@link ConfigError} that names every bad setting at once
 */
export function loadClientConfig(env: Environment): ClientConfig {
  const settings = new SettingsReader(env);
  const config = {
    temporal: readTemporalConfig(settings, env),
    taskQueue: settings.read('FOLLOW_UP_TASK_QUEUE', taskQueueSchema, DEFAULT_TASK_QUEUE),
    budget: readBudgetSettings(settings),
  };
  settings.throwIfBad();
  return config;
}

function readVersion(settings: SettingsReader): WorkerDeploymentVersion | undefined {
  const [nameSetting, buildSetting] = ['TEMPORAL_DEPLOYMENT_NAME', 'TEMPORAL_WORKER_BUILD_ID'] as const;
  const deploymentName = settings.read<string | undefined>(nameSetting, deploymentNameSchema, undefined);
  const buildId = settings.read<string | undefined>(buildSetting, buildIdSchema, undefined);
  if (deploymentName !== undefined && buildId !== undefined) return { deploymentName, buildId };
  if (deploymentName !== undefined) settings.refuse(nameSetting, `needs ${buildSetting}, too`, deploymentName);
  if (buildId !== undefined) settings.refuse(buildSetting, `needs ${nameSetting}, too`, buildId);
  return undefined;
}

function readCapacity(settings: SettingsReader): WorkerCapacity {
  const { capacity } = configDefaults;
  return {
    cachedWorkflows: settings.read('FOLLOW_UP_CACHED_WORKFLOWS', countSchema(1, 100_000), capacity.cachedWorkflows),
    workflowTasks: settings.read('FOLLOW_UP_WORKFLOW_TASKS', countSchema(2, 10_000), capacity.workflowTasks),
    activities: settings.read('FOLLOW_UP_ACTIVITIES', countSchema(2, 10_000), capacity.activities),
    watches: settings.read('FOLLOW_UP_WATCHES', countSchema(0, 100_000), capacity.watches),
    pollers: settings.read('FOLLOW_UP_POLLERS', countSchema(2, 200), capacity.pollers),
  };
}

function readBudgetSettings(settings: SettingsReader): WorkerBudget {
  const limit = settings.read('FOLLOW_UP_BUDGET_LIMIT', countSchema(1, 10_000), configDefaults.budgetLimit);
  const reserve = settings.read('FOLLOW_UP_BUDGET_RESERVE', countSchema(0, 10_000), configDefaults.budgetReserve);
  if (reserve >= limit) {
    settings.refuse('FOLLOW_UP_BUDGET_RESERVE', `must be less than FOLLOW_UP_BUDGET_LIMIT, ${limit}`, String(reserve));
  }
  const maxLimit = settings.read('FOLLOW_UP_BUDGET_MAX_LIMIT', countSchema(1, 10_000), limit);
  if (maxLimit < limit) {
    const rule = `must be at least FOLLOW_UP_BUDGET_LIMIT, ${limit}`;
    settings.refuse('FOLLOW_UP_BUDGET_MAX_LIMIT', rule, String(maxLimit));
  }
  const windowMs = settings.read(
    'FOLLOW_UP_BUDGET_WINDOW',
    durationSetting('1s', '31d'),
    configDefaults.budgetWindowMs,
  );
  const marginMs = settings.read('FOLLOW_UP_MARGIN', durationSetting('0s', '5m'), configDefaults.marginMs);
  return { limit, windowMs, reserve, marginMs, maxLimit };
}
