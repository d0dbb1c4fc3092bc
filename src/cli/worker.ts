import type { Command } from 'commander';
import { loadConfig, loadLoggingConfig } from '../config.js';
import { type Cli, withCommonOptions } from './cli.js';
import { ExitCode } from './exit-codes.js';

/** `follow-up worker` */
export function addWorkerCommand(program: Command, cli: Cli): void {
  const command = program
    .command('worker')
    .description('run the worker, until SIGTERM or Ctrl-C; settings are environment variables, see the README');
  withCommonOptions(
    command,
    'AGENT_JOBS_BASE_URL=https://api.example.com AGENT_JOBS_API_KEY_FILE=/run/secrets/key follow-up worker',
  ).action(async () => {
    cli.exitCode = await runWorker(cli);
  });
}

async function runWorker({ env, output }: Cli): Promise<ExitCode> {
  const logging = loadLoggingConfig(env, output.stderr.isTTY ? 'pretty' : 'json');
  const config = { ...loadConfig(env), logging };
  // The worker's native code takes a second to load: only the commands that need it pay for it.
  const [{ runUntilSignal, startWorker }, { createLogger }] = await Promise.all([
    import('../worker.js'),
    import('../logging.js'),
  ]);
  const logger = createLogger(logging);
  await runUntilSignal(async (signal) => {
    const service = await startWorker({ config, logger, signal });
    const { identity, statusUrl, ready } = service;
    const { taskQueue } = config;
    // A worker that ends before it is ready says why when it is run.
    ready.then(
      () => output.data({ identity, taskQueue, statusUrl }, `worker ${identity} takes follow-ups from ${taskQueue}`),
      () => undefined,
    );
    return service;
  }, logger);
  return ExitCode.ok;
}
