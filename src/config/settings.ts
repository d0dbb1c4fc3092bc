import { type Stats, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';
import { isUsableApiKey, KEY_RULE } from '../agent-jobs/api-keys.js';
import { baseUrlIssue } from '../agent-jobs/base-url.js';
import { messageOf } from '../common/index.js';
import { DEFAULT_TASK_QUEUE, durationSchema, idSchema } from '../contract/index.js';
import { parseTargets } from '../webhooks/targets.js';
import { secretSetting, setting } from './settings-reader.js';

/** pino's levels, from the most to the fewest lines. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const;

function count(min: number, max: number) {
  const rule = `must be a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,9}$/, rule)
    .transform(Number)
    .refine((number) => number >= min && number <= max, rule);
}

/** In milliseconds. In the environment, even whole numbers are text. */
function duration(min: string, max: string) {
  const toNumber = (text: string) => (/^\d+$/.test(text) ? Number(text) : text);
  return z.string().transform(toNumber).pipe(durationSchema(min, max));
}

const oneOf = <const T extends readonly string[]>(values: T) =>
  z.enum(values, { error: `must be one of ${values.join(', ')}` });

/** Text without the characters that separate the parts of a version, or end a text in a query. */
function versionPart(mark: '/' | '.') {
  const rule = `must be at most 200 letters, digits, -, _ or ${mark}, and begin with a letter or digit`;
  return z.string().regex(new RegExp(`^[a-z\\d][\\w${mark}-]{0,199}$`, 'i'), rule);
}

/** Address of `/healthz`, `/readyz` and `/metrics`. */
export interface StatusAddress {
  host: string;
  /** 0 takes any free port. */
  port: number;
}

const HOST_AND_PORT = /^(\[[0-9a-f:.]+\]|[^\s:/@?#[\]]+)(?::(\d{1,5}))?$/i;

/** Parses `HOST:PORT` or `HOST`; `undefined` for other text. `host` keeps the brackets of an IPv6 address. */
export function parseAddress(text: string): { host: string; port?: number } | undefined {
  const [, host, port] = HOST_AND_PORT.exec(text) ?? [];
  if (host === undefined || Number(port ?? 0) > 65_535) return undefined;
  return port === undefined ? { host } : { host, port: Number(port) };
}

function parseStatusAddress(text: string): StatusAddress | undefined {
  const { host = '', port } = parseAddress(text) ?? {};
  return port === undefined ? undefined : { host: host.replace(/^\[|\]$/g, ''), port };
}

/** Settings of commands that start and manage follow-ups, in the shape of their configuration. */
export const clientSettings = {
  taskQueue: setting(
    'FOLLOW_UP_TASK_QUEUE',
    z
      .string()
      // The server allows 1,000 bytes, and `-budget` is appended.
      .max(200, 'must be at most 200 characters')
      .refine((name) => !name.startsWith('/_sys/'), 'must not begin with /_sys/, which Temporal reserves'),
    DEFAULT_TASK_QUEUE,
  ),
  /** Of a new project's budget. No budget exceeds `maxLimit` messages per `windowMs`. */
  budget: {
    limit: setting('FOLLOW_UP_BUDGET_LIMIT', count(1, 10_000), 100),
    windowMs: setting('FOLLOW_UP_BUDGET_WINDOW', duration('1s', '31d'), 3_600_000),
    reserve: setting('FOLLOW_UP_BUDGET_RESERVE', count(0, 10_000), 0),
    /** @default the limit */
    maxLimit: setting('FOLLOW_UP_BUDGET_MAX_LIMIT', count(1, 10_000), undefined),
    marginMs: setting('FOLLOW_UP_MARGIN', duration('0s', '5m'), 2_000),
  },
};

/** Settings of the worker, in the shape of its configuration. Durations are in milliseconds. */
export const workerSettings = {
  agentJobs: {
    /** Without a trailing slash. */
    baseUrl: secretSetting(
      'AGENT_JOBS_BASE_URL',
      z
        .string()
        .superRefine((text, context) => {
          const issue = baseUrlIssue(text);
          if (issue !== undefined) context.addIssue(issue);
        })
        .transform((text) => new URL(text).href.replace(/\/+$/, '')),
      '',
    ),
    allowHttp: setting(
      'AGENT_JOBS_ALLOW_HTTP',
      z.enum(['true', 'false'], 'must be true or false').transform((text) => text === 'true'),
      false,
    ),
    /**
     * A project uses the first of `keysFile`, `keyFile` and `key` with a key for it; at least one is set. Changed files
     * are read again, so that a key can be replaced without a restart.
     */
    apiKeys: {
      /** One key for all projects. A function, so that logging or inspecting a configuration does not show it. */
      key: secretSetting(
        'AGENT_JOBS_API_KEY',
        z
          .string()
          .refine(isUsableApiKey, `must be ${KEY_RULE}`)
          .transform((key) => () => key),
        undefined,
      ),
      keyFile: setting('AGENT_JOBS_API_KEY_FILE', z.string(), undefined),
      keysFile: setting('AGENT_JOBS_API_KEYS_FILE', z.string(), undefined),
    },
    /** Above 7 s, the local activity would last longer than 8 s, which costs 3 more events per read. */
    getTimeoutMs: setting('AGENT_JOBS_GET_TIMEOUT', duration('100ms', '7s'), 5_000),
    /** Deadline of one POST, from connecting to the last byte of the response. */
    sendTimeoutMs: setting('FOLLOW_UP_SEND_TIMEOUT', duration('100ms', '5m'), 30_000),
  },
  projects: setting(
    'FOLLOW_UP_PROJECTS',
    z
      .string()
      .transform((text): '*' | readonly string[] => (text === '*' ? text : text.split(',').map((id) => id.trim())))
      .superRefine((projects, context) => {
        const bad = projects === '*' ? undefined : projects.find((id) => !idSchema.safeParse(id).success);
        if (bad === undefined) return;
        context.addIssue(`must be * or project ids separated by commas, not ${JSON.stringify(bad)}`);
      }),
    '*',
  ),
  /** Webhook targets by name. The file is read again when it changes. */
  webhooks: {
    /** A function, so that logging or inspecting a configuration does not show the secrets. */
    targets: secretSetting(
      'FOLLOW_UP_WEBHOOKS',
      z.string().transform((text, context) => {
        try {
          const targets = parseTargets(text);
          return () => targets;
        } catch (error) {
          context.addIssue(messageOf(error));
          return z.NEVER;
        }
      }),
      undefined,
    ),
    file: setting('FOLLOW_UP_WEBHOOKS_FILE', z.string(), undefined),
  },
  /** How long after the lease bytes may still arrive, because of kernel retransmits or gateways. */
  drainMs: setting('FOLLOW_UP_DRAIN', duration('0s', '1h'), 120_000),
  /** Concurrency and memory of a worker. docs/how-to/run-in-production.md, "6. Size it", explains the numbers. */
  capacity: {
    /**
     * Follow-ups, batches and parts in the cache. Others are replayed at their next task. A follow-up has about six
     * tasks, most of them in the seconds around its send.
     */
    cachedWorkflows: setting('FOLLOW_UP_CACHED_WORKFLOWS', count(1, 100_000), 300),
    /**
     * Concurrent workflow tasks, which share one thread. A task that reads a job keeps its slot during the GET. With
     * 400 slots, 10,000 simultaneous follow-ups and 2 cores, tasks wait for the thread until they time out after 10 s.
     * 100 slots allow 20 reads before a send per second if every GET takes 5 s; the SDK's 40 allow 8.
     */
    workflowTasks: setting('FOLLOW_UP_WORKFLOW_TASKS', count(2, 10_000), 100),
    /**
     * Concurrent activities besides sleeping watches. A budget allows 10 sends under way, and 500 activities allow 100
     * polls a second if every GET takes 5 s.
     */
    activities: setting('FOLLOW_UP_ACTIVITIES', count(2, 10_000), 500),
    /** Watches that sleep in this process. The others wait on timers of the server. */
    watches: setting('FOLLOW_UP_WATCHES', count(0, 100_000), 2_000),
    /**
     * Concurrent polls for workflow tasks; half as many for activities. Twice the SDK's default, because tasks are
     * short.
     */
    pollers: setting('FOLLOW_UP_POLLERS', count(2, 200), 20),
  },
  /** `undefined`: off. */
  status: setting(
    'FOLLOW_UP_STATUS_ADDRESS',
    z
      .string()
      .refine(
        (text) => text === 'off' || parseStatusAddress(text) !== undefined,
        'must be a host and a port, such as 127.0.0.1:9464, or off',
      )
      .transform(parseStatusAddress),
    { host: '127.0.0.1', port: 9464 },
  ),
  logging: {
    level: setting('FOLLOW_UP_LOG_LEVEL', oneOf(logLevels), 'info'),
    /** `pretty` is for terminals. */
    format: setting('FOLLOW_UP_LOG_FORMAT', oneOf(['json', 'pretty']), 'json'),
  },
};

/** `undefined` if the path does not exist or is not accessible. */
export function statOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}

/** Both or neither. */
export const versionSettings = {
  deploymentName: setting('TEMPORAL_DEPLOYMENT_NAME', versionPart('/'), undefined),
  buildId: setting('TEMPORAL_WORKER_BUILD_ID', versionPart('.'), undefined),
};

/** Becomes an absolute path; a relative one starts at the working directory. */
export const dataConverterSetting = setting(
  'FOLLOW_UP_DATA_CONVERTER',
  z
    .string()
    .transform((path) => resolve(path))
    .refine((path) => statOf(path)?.isFile() === true, 'must be the path of a JavaScript module'),
  undefined,
);
