import { Argument, type Command } from 'commander';
import { type LazyAction, withCommonOptions } from './options.js';

/** `follow-up dev` and `worker`. */
export function addWorkerCommands(program: Command, action: LazyAction): void {
  const dev = program
    .command('dev')
    .description(
      'run everything on this machine: Temporal with its UI, a simulated service, a worker, and a few follow-ups',
    )
    .option('--exit', 'end when the follow-ups have ended, instead of at Ctrl-C')
    .option('--project <project>', 'with --job and --prompt: send this follow-up instead of the demonstration')
    .option('--job <id>', 'see --project')
    .option('--prompt <text>', 'see --project')
    .option('--port <port>', 'port of Temporal (default: 7233, or any where it is taken)')
    .option('--ui-port <port>', 'port of its UI (default: 8233, or any where it is taken)');
  withCommonOptions(dev, 'follow-up dev --exit').action(action(async () => (await import('./dev.js')).runDev));

  const worker = program
    .command('worker')
    .description('run the worker, until SIGTERM or Ctrl-C; settings are environment variables, see the README');
  withCommonOptions(
    worker,
    'AGENT_JOBS_BASE_URL=https://api.example.com \\\n      AGENT_JOBS_API_KEY_FILE=/run/secrets/key follow-up worker',
  ).action(action(async () => (await import('./worker.js')).runWorker));
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
    .description('register the search attributes of follow-ups in the namespace; may be run again at any time');
  withCommonOptions(setup, 'TEMPORAL_ADDRESS=temporal.example.com:7233 follow-up setup').action(
    action(async () => (await import('./setup.js')).setUp),
  );

  const doctor = program
    .command('doctor')
    .description('check the whole installation: settings, server, workers, keys, budgets, batches, schedules, clocks')
    .option('--project <project>', 'project whose API key is tried')
    .option('--job <id>', 'job that is read; it need not exist')
    .option('-w, --watch', 'look again every 5 s, and tell what comes and goes; Ctrl-C ends it')
    .addHelpText('after', '\nThe exit code is 0 only where nothing is to be done.');
  withCommonOptions(doctor, 'follow-up doctor --project my-project').action(
    action(async () => (await import('./doctor.js')).runDoctor),
  );

  const simulator = program
    .command('simulator')
    .description('run a simulated agent job service; ids such as fail-1, slow-1, missing-1 decide how a job behaves')
    .option('--host <address>', 'address to listen on (default: 127.0.0.1)')
    .option('--port <port>', '0 takes any free port (default: 8080)')
    .option('--limit <messages>', 'messages a project and window (default: 100)')
    .option('--window <duration>', 'window of the limit (default: 1h)')
    .option('--turn <duration>', 'how long the agent works on a message (default: 4s)')
    .option('--seed <number>', 'all randomness comes from it (default: 1)')
    .option('--no-auto-create', 'jobs that nobody made do not exist')
    .option('--ledger-file <file>', 'append every message request to this file, one JSON a line')
    .option('--options <file>', 'JSON file with further options of the simulator; they win over the others');
  withCommonOptions(simulator, 'follow-up simulator --port 8080').action(
    action(async () => (await import('./simulator.js')).runSimulator),
  );
}

/** `follow-up completion`, and what its scripts ask. */
export function addCompletionCommands(program: Command, action: LazyAction): void {
  program
    .command('completion')
    .description('print a script with which the shell completes commands, options, and ids of a running Temporal')
    .addArgument(new Argument('<shell>', 'whose script').choices(['bash', 'zsh', 'fish']))
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
