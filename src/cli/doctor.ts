import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { InvalidInputError } from '../client/index.js';
import { callTemporal, toConnectionError } from '../client/temporal.js';
import { ConfigError, type Environment, loadConfig, type WorkerConfig } from '../config/index.js';
import { idSchema, parseInput } from '../contract/index.js';
import { ensureSearchAttributes, SearchAttributesError } from '../temporal/search-attributes.js';
import { type Cli, ExitCode, interruptible } from './cli.js';
import { type Check, type CheckStatus, describeCheck, identityOf, isFinding } from './doctor-check.js';
import { checkService } from './doctor-service.js';
import { checkTemporal, type TemporalChecks } from './doctor-temporal.js';
import { checkWork, type WorkChecks } from './doctor-work.js';
import { clock } from './text.js';
import { withTemporal } from './session.js';

interface DoctorOptions {
  project?: string;
  job?: string;
  watch?: boolean;
}

/** The findings of one look at everything. */
interface Report {
  checks: Check[];
  exitCode: ExitCode;
}

/** Time between two looks of `--watch`. */
const LOOK_INTERVAL_MS = 5_000;

/** The settings of the service: workers need them, clients do not. */
const SERVICE_SETTINGS = [
  'AGENT_JOBS_BASE_URL',
  'AGENT_JOBS_API_KEY',
  'AGENT_JOBS_API_KEY_FILE',
  'AGENT_JOBS_API_KEYS_FILE',
];

/** `follow-up doctor` */
export async function runDoctor(cli: Cli, { watch, ...options }: DoctorOptions): Promise<ExitCode> {
  const ids = parseInput(z.object({ project: idSchema.optional(), job: idSchema.optional() }), options);
  if (!ids.ok) throw new InvalidInputError(ids.issues);
  const first = await look(cli, options);
  if (watch !== true) {
    print(cli, first);
    return first.exitCode;
  }
  await interruptible(cli, (signal) => {
    print(cli, first);
    return watchOn(cli, options, first, signal);
  });
  return ExitCode.interrupted;
}

function print({ output }: Cli, { checks }: Report): void {
  const count = (wanted: CheckStatus) => checks.filter(({ status }) => status === wanted).length;
  const [errors, warnings] = [count('error'), count('warning')];
  const findings = errors + warnings;
  const verdict = findings === 0 ? 'all is well' : `${findings} to fix`;
  output.data({ ok: findings === 0, errors, warnings, checks }, [...checks.map(describeCheck), verdict].join('\n'));
}

/** Reports each new finding and each that is gone, until the signal is aborted. */
async function watchOn(
  { env, output }: Cli,
  options: DoctorOptions,
  first: Report,
  signal: AbortSignal,
): Promise<void> {
  let known = findingsOf(first);
  // An unreachable server is a finding; no further note is needed.
  const silent = { env, output: { note: () => undefined } };
  for (;;) {
    const isOver = await sleep(LOOK_INTERVAL_MS, false, { signal }).catch(() => true);
    if (isOver) return;
    const report = await look(silent, options);
    const now = findingsOf(report);
    const tell = (change: 'found' | 'fixed', check: Check) => {
      const at = new Date().toISOString();
      output.data({ change, at, ...check }, `${clock(at)}  ${change.padEnd(6)}  ${describeCheck(check)}`);
    };
    for (const [identity, check] of now) if (!known.has(identity)) tell('found', check);
    // Without Temporal the state of the other findings is unknown.
    if (report.exitCode === ExitCode.unreachable) {
      known = new Map([...known, ...now]);
      continue;
    }
    for (const [identity, check] of known) if (!now.has(identity)) tell('fixed', check);
    known = now;
  }
}

function findingsOf({ checks }: Report): Map<string, Check> {
  return new Map(checks.filter(isFinding).map((check) => [identityOf(check), check]));
}

/** Looks at everything once. */
async function look({ env, output }: Parameters<typeof withTemporal>[0], options: DoctorOptions): Promise<Report> {
  const noWork: WorkChecks = { checks: [], projects: [] };
  const { temporal, work } = await withTemporal({ env, output }, async (session) => {
    const found = await checkTemporal(session);
    return { temporal: found, work: found.isUsable ? await checkWork(session, found.hasWorkers) : noWork };
  }).catch((error: unknown): { temporal: TemporalChecks; work: WorkChecks } => {
    if (!(error instanceof ConfigError)) throw error;
    const check: Check = { name: 'Temporal', status: 'error', message: 'not checked: its settings are wrong' };
    return { temporal: { checks: [check], isUsable: false, hasWorkers: false }, work: noWork };
  });
  const { config, check: configuration } = checkConfiguration(env, temporal.hasWorkers);
  const security = (config?.warnings ?? []).map((message): Check => ({
    name: 'security',
    subject: message.split(/[:=]/)[0] ?? '',
    status: 'warning',
    message,
  }));
  const service = await checkService(config, { ...options, projects: work.projects });
  const checks = [configuration, ...security, ...temporal.checks, ...work.checks, ...service];
  return { checks, exitCode: exitCodeOf(checks, configuration, temporal) };
}

function exitCodeOf(
  checks: readonly Check[],
  configuration: Check,
  { checks: [connection] }: TemporalChecks,
): ExitCode {
  if (!checks.some(isFinding)) return ExitCode.ok;
  if (configuration.status === 'error') return ExitCode.usage;
  return connection?.status === 'error' ? ExitCode.unreachable : ExitCode.error;
}

/** Workers elsewhere have their own settings: while one runs, the service's settings may be missing here. */
function checkConfiguration(env: Environment, hasWorkers: boolean): { config?: WorkerConfig; check: Check } {
  const name = 'configuration';
  try {
    return { config: loadConfig(env), check: { name, status: 'ok', message: 'all required settings are present' } };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const isOfService = error.issues.every((issue) => SERVICE_SETTINGS.includes(issue.name));
    if (hasWorkers && isOfService && SERVICE_SETTINGS.every((setting) => !env[setting]?.trim())) {
      const message = 'the settings of the agent job service are not set here; the workers that run have their own';
      return { check: { name, status: 'note', message } };
    }
    return {
      check: {
        name,
        status: 'error',
        message: error.issues.map((issue) => `${issue.name}: ${issue.message}`).join('; '),
        why: 'a worker does not start with these settings',
        fix: 'set these in the environment of the worker',
      },
    };
  }
}

/** `follow-up setup` */
export async function setUp({ env, output }: Cli): Promise<void> {
  await withTemporal({ env, output }, async ({ client, connection, config: { namespace } }) => {
    await callTemporal(client, () => connection.workflowService.describeNamespace({ namespace }));
    const { added } = await ensureSearchAttributes(connection, namespace).catch((error: unknown) => {
      // It says more than that they are missing.
      if (error instanceof SearchAttributesError) throw error;
      throw toConnectionError(client, error) ?? error;
    });
    const done = added.length === 0 ? 'nothing to do, all are there' : `registered ${added.join(', ')}`;
    output.data({ namespace, added }, `namespace ${namespace}: ${done}`);
  });
}
