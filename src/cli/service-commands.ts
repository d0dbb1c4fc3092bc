import { Argument, type Command } from 'commander';
import { type LazyAction, withCommonOptions } from './command-options.js';

/** `follow-up dev` and `worker`. */
export function addWorkerCommands(program: Command, action: LazyAction): void {
  const dev = program
    .command('dev')
    .description('run everything on this machine: Temporal and its UI, a simulated service, a worker, four follow-ups')
    .option('--exit', 'exit when the follow-ups have ended, without waiting for Ctrl-C')
    .option('--project <project>', 'with --job and --prompt: send this follow-up instead of the four')
    .option('--job <id>', 'see --project')
    .option('--prompt <text>', 'see --project')
    .option('--port <port>', 'port of Temporal (default: 7233, or a free one if it is taken)')
    .option('--ui-port <port>', 'port of the Temporal UI (default: 8233, or a free one if it is taken)');
  withCommonOptions(dev, 'follow-up dev --exit').action(action(async () => (await import('./dev.js')).runDev));

  const worker = program
    .command('worker')
    .description(
      'run the worker until SIGTERM or Ctrl-C; its settings are environment variables (docs/reference/settings.md)',
    );
  withCommonOptions(
    worker,
    'AGENT_JOBS_BASE_URL=https://api.example.com \\\n      AGENT_JOBS_API_KEY_FILE=/run/secrets/key follow-up worker',
  ).action(action(async () => (await import('./run-worker.js')).runWorker));
}

/** `follow-up top`, `setup`, `doctor` and `simulator`. */
export function addServiceCommands(program: Command, action: LazyAction): void {
  const top = program
    .command('top')
    .description('show all projects with slots, queue and pauses, and what waits for somebody; live until Ctrl-C')
    .option('--interval <duration>', 'between two looks, 500ms to 1h (default: 2s)')
    .addHelpText('after', '\nInto a pipe it prints one look and ends; with --json a document a change.');
  withCommonOptions(top, 'follow-up top').action(action(async () => (await import('./top.js')).showTop));

  const setup = program
    .command('setup')
    .description('register the search attributes in the namespace; you can repeat it at any time');
  withCommonOptions(setup, 'TEMPORAL_ADDRESS=temporal.example.com:7233 follow-up setup').action(
    action(async () => (await import('./doctor.js')).setUp),
  );

  const doctor = program
    .command('doctor')
    .description(
      'check the whole installation: settings, server, workers, API keys, budgets, batches, schedules, clocks',
    )
    .option('--project <project>', 'project whose API key to try')
    .option('--job <id>', 'job to read; it need not exist')
    .option('-w, --watch', 'check again every 5 s and print what appears and disappears; Ctrl-C ends it')
    .addHelpText('after', '\nThe exit code is 0 only if there is nothing to do.');
  withCommonOptions(doctor, 'follow-up doctor --project my-project').action(
    action(async () => (await import('./doctor.js')).runDoctor),
  );

  const simulator = program
    .command('simulator')
    .description('run a simulated agent job service; ids such as fail-1, slow-1, missing-1 decide how a job behaves')
    .option('--host <address>', 'address to listen on (default: 127.0.0.1)')
    .option('--port <port>', 'port to listen on; 0 takes any free one (default: 8080)')
    .option('--limit <messages>', 'messages per project and window (default: 100)')
    .option('--window <duration>', 'window of the limit (default: 1h)')
    .option('--turn <duration>', 'how long the agent works on a message (default: 4s)')
    .option('--seed <number>', 'seed of all randomness (default: 1)')
    .option('--no-auto-create', 'do not create a job when it is first asked for')
    .option('--ledger-file <file>', 'append every message request to this file, one JSON per line')
    .option('--options <file>', 'JSON file with more options of the simulator; they override the others');
  withCommonOptions(simulator, 'follow-up simulator --port 8080').action(
    action(async () => (await import('./run-simulator.js')).runSimulator),
  );
}

/** `follow-up completion`, and what its scripts ask. */
export function addCompletionCommands(program: Command, action: LazyAction): void {
  program
    .command('completion')
    .description('print a script that lets the shell complete commands, options, and ids from Temporal')
    .addArgument(new Argument('<shell>', 'the shell').choices(['bash', 'zsh', 'fish']))
    .addHelpText('after', COMPLETION_HELP)
    .action(action(async () => (await import('./complete.js')).printCompletionScript));
  program
    .command('complete', { hidden: true })
    .argument('[words...]')
    .action(action(async () => (await import('./complete.js')).complete));
}

const COMPLETION_HELP = `
Examples:
  $ echo 'source <(follow-up completion bash)' >> ~/.bashrc
  $ echo 'source <(follow-up completion zsh)' >> ~/.zshrc
  $ follow-up completion fish > ~/.config/fish/completions/follow-up.fish`;
