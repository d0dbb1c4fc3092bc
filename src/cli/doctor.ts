import { z } from 'zod';
import { InvalidInputError } from '../client/index.js';
import { ConfigError, loadConfig, type WorkerConfig } from '../config.js';
import { idSchema, parseInput } from '../contract/index.js';
import type { Cli } from './cli.js';
import { type Check, type CheckStatus, checkTemporal } from './doctor-temporal.js';
import { checkService } from './doctor-service.js';
import { ExitCode } from './errors.js';
import { safeLine } from './safe-text.js';
import { withTemporal } from './temporal-session.js';

interface DoctorOptions {
  project?: string;
  job?: string;
}

/** `follow-up doctor` */
export async function runDoctor({ env, output }: Cli, options: DoctorOptions): Promise<ExitCode> {
  const ids = parseInput(z.object({ project: idSchema.optional(), job: idSchema.optional() }), options);
  if (!ids.ok) throw new InvalidInputError(ids.issues);
  const { config, check: configuration } = checkConfiguration(() => loadConfig(env));
  const [temporal, service] = await Promise.all([
    withTemporal(env, checkTemporal).catch((error: unknown): Check[] => {
      if (!(error instanceof ConfigError)) throw error;
      return [{ name: 'Temporal', status: 'error', message: 'not tried: its settings are wrong' }];
    }),
    checkService(config, options),
  ]);
  const security = (config?.warnings ?? []).map((message): Check => ({ name: 'security', status: 'warning', message }));
  const checks = [configuration, ...security, ...temporal, service];
  const count = (status: CheckStatus) => checks.filter((check) => check.status === status).length;
  const [errors, warnings] = [count('error'), count('warning')];
  const verdict = errors === 0 ? `all is well${warnings > 0 ? `, ${warnings} to look at` : ''}` : `${errors} to mend`;
  output.data({ ok: errors === 0, errors, warnings, checks }, [...checks.map(describeCheck), verdict].join('\n'));
  if (errors === 0) return ExitCode.ok;
  if (configuration.status === 'error') return ExitCode.usage;
  return temporal[0]?.status === 'error' ? ExitCode.unreachable : ExitCode.error;
}

function checkConfiguration(load: () => WorkerConfig): { config?: WorkerConfig; check: Check } {
  const name = 'configuration';
  try {
    return { config: load(), check: { name, status: 'ok', message: 'all settings of a worker are there' } };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const message = error.issues.map((issue) => `${issue.name}: ${issue.message}`).join('; ');
    return { check: { name, status: 'error', message, mend: 'set these in the environment of the worker' } };
  }
}

/** A check as a line, and its mend as another. */
function describeCheck({ name, status, message, mend }: Check): string {
  const line = `${status.padEnd(7)}  ${name.padEnd(17)}  ${safeLine(message)}`;
  return mend === undefined ? line : `${line}\n${' '.repeat(28)}-> ${mend}`;
}
