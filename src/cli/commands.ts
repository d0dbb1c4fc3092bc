import { Argument, type Command, InvalidArgumentError, Option } from 'commander';
import {
  deliveryDecisions,
  followUpStates,
  lanes,
  retryChoices,
  scheduleOverlaps,
  unknownDeliveryActions,
  whenActiveActions,
} from '../contract/choices.js';
import { type Cli, ExitCode } from './cli.js';

/** A command, called with the arguments as commander parses them. Without a returned exit code, it is `ok`. */
type Run = (cli: Cli, ...args: never[]) => Promise<ExitCode | void>;

/**
 * Adds all commands. A command's code is imported when it runs, so that help and invalid options wait for neither it
 * nor any schema.
 */
export function addCommands(program: Command, cli: Cli): void {
  const dev = adder(cli, program, () => import('./dev.js'));
  dev('dev', '% --exit', (code) => code.runDev)
    .description('run everything on this machine: Temporal and its UI, a simulated service, a worker, four follow-ups')
    .option('--exit', 'exit when the follow-ups have ended, without waiting for Ctrl-C')
    .option('--project <project>', 'with --job and --prompt: send this follow-up instead of the four')
    .option('--job <id>', 'see --project')
    .option('--prompt <text>', 'see --project')
    .option('--port <port>', 'port of Temporal (default: 7233, or a free one if it is taken)')
    .option('--ui-port <port>', 'port of the Temporal UI (default: 8233, or a free one if it is taken)');

  const service = adder(cli, program, () => import('./serve.js'));
  service('worker', WORKER_EXAMPLE, (code) => code.runWorker).description(
    'run the worker until SIGTERM or Ctrl-C; its settings are environment variables (docs/reference/settings.md)',
  );

  addFollowUpCommands(program, cli);
  addBatchCommands(program, cli);
  addScheduleCommands(program, cli);
  addBudgetCommands(program, cli);

  const setup = adder(cli, program, () => import('./setup.js'));
  setup('setup', 'TEMPORAL_ADDRESS=temporal.example.com:7233 %', (code) => code.setUp).description(
    'register the search attributes in the namespace; you can repeat it at any time',
  );
  const doctor = adder(cli, program, () => import('./doctor.js'));
  doctor('doctor', '% --project my-project', (code) => code.runDoctor)
    .description('check the whole installation: settings, service, API keys, server, workers, and what is blocked')
    .option('--project <project>', 'project whose API key to try')
    .option('--job <id>', 'job to read; it need not exist')
    .addHelpText('after', '\nThe exit code is 0 only if there is nothing to do.');
  service('simulator', '% --port 8080', (code) => code.runSimulator)
    .description('run a simulated agent job service; ids such as fail-1, slow-1, missing-1 decide how a job behaves')
    .option('--host <address>', 'address to listen on (default: 127.0.0.1)')
    .option('--port <port>', 'port to listen on; 0 takes any free one (default: 8080)')
    .option('--limit <n>', 'messages per project and window (default: 100)')
    .option('--window <duration>', 'window of the limit (default: 1h)')
    .option('--turn <duration>', 'how long the agent works on a message (default: 4s)')
    .option('--seed <number>', 'seed of all randomness (default: 1)')
    .option('--no-auto-create', 'do not create a job when it is first requested')
    .option('--ledger-file <file>', 'append every message request to this file, one JSON per line')
    .option('--options <file>', 'JSON file with more options of the simulator; they override the others');

  finish(program);
  program
    .command('completion')
    .description('print a script that lets the shell complete commands, options and their values')
    .addArgument(new Argument('<shell>', 'the shell').choices(['bash', 'zsh', 'fish']))
    .addHelpText('after', COMPLETION_HELP)
    .action(async (shell: string) => {
      const { completionScript } = await import('./completion.js');
      cli.io.stdout.write(completionScript(program, shell));
    });
}

function addFollowUpCommands(program: Command, cli: Cli): void {
  const followUp = adder(cli, program, () => import('./follow-up-commands.js'));
  const send = followUp('send <project> <job> [-]', SEND_EXAMPLE, (code) => code.send).description(
    'send a message to an agent job and wait for its pull request',
  );
  addPromptOptions(send).option(
    '-k, --key <key>',
    'unique within the job; the same key never sends a second message (default: random)',
  );
  addNotifyOption(addSettingOptions(send, 'interactive')).option(
    '--no-wait',
    'start it and print its workflow id, without waiting',
  );
  followUp('status <workflowId>', `% ${EXAMPLE_ID}`, (code) => code.showStatus).description(
    'show the state, queue position, job, next poll, last error and result of a follow-up',
  );
  followUp('list', '% --project my-project --state waiting-for-budget', (code) => code.listFollowUps)
    .description('list follow-ups, newest first')
    .option('--project <project>', 'only follow-ups of this project')
    .option('--job <job>', 'only follow-ups to this job')
    .option('--pr <url>', 'only follow-ups with this pull request')
    .option('--since <time>', 'only follow-ups started since then: 24h, or 2026-11-22T08:00:00Z')
    .addOption(choice('--state <state>', 'only follow-ups in this state', followUpStates))
    .option('--batch <batch>', 'only follow-ups of this batch');
  followUp('cancel <workflowId>', `% ${EXAMPLE_ID}`, (code) => code.cancel).description(
    'cancel a follow-up: before the send nothing is sent; after it the agent job continues',
  );
  followUp('poll-now <workflowId>', `% ${EXAMPLE_ID}`, (code) => code.pollNow).description(
    'poll the job of a follow-up now',
  );
  followUp('resolve <workflowId>', `% ${EXAMPLE_ID} sent`, (code) => code.resolve)
    .description('decide whether the message of a reconciling follow-up was delivered')
    .addArgument(new Argument('<decision>', 'notSent sends the message again').choices(deliveryDecisions));
}

function addBatchCommands(program: Command, cli: Cli): void {
  const batches = program.command('batch').description('send messages to many agent jobs, and manage these batches');
  const batch = adder(cli, batches, () => import('./batch-commands.js'));
  const run = batch('run', `% list.jsonl --id ${EXAMPLE_BATCH} --canary 5`, (code) => code.runBatch)
    .description('send many follow-ups; the whole file is checked before anything is sent')
    .argument('[file]', 'one input as JSON per line, {"projectId":…,"jobId":…,"prompt":…}; - reads stdin')
    .requiredOption('--id <id>', 'id of the batch (required); the same id never sends a second message')
    .option('--jobs <file>', 'instead of FILE: one job id per line, with --project and a prompt for all; - reads stdin')
    .option('--project <project>', 'with --jobs: the project of the jobs');
  addSettingOptions(addLimitOptions(addPromptOptions(run)), 'batch')
    .option('--dry-run', 'check the file, show what would be sent, and send nothing')
    .option('--no-wait', 'start it and print its id (--json: also those of its items), without waiting');
  batch('status <batch>', `% ${EXAMPLE_BATCH}`, (code) => code.showBatch)
    .description('show a batch: counts, failures, whether it is held; with --json every item')
    .option('-w, --watch', 'wait until it has ended; exit code as with "batch run"');
  batch('continue <batch>', `% ${EXAMPLE_BATCH}`, (code) => code.continueBatch).description(
    'continue a held batch; failures count from 0 again',
  );
  batch('retry <batch>', `% ${EXAMPLE_BATCH} --only unknown`, (code) => code.retryBatch)
    .description('send the failed items of an ended batch again, as a new batch')
    .addOption(new Option('--only <which>', ONLY_HELP).choices(retryChoices))
    .option('--yes', 'also send items that may have been delivered')
    .option('--no-wait', 'start it and print its id, without waiting');
  batch('cancel <batch>', `% ${EXAMPLE_BATCH}`, (code) => code.cancelBatch).description(
    'cancel a batch: nothing more is sent; sent items are reported, and their jobs continue',
  );
}

function addScheduleCommands(program: Command, cli: Cli): void {
  const schedules = program.command('schedule').description('start batches of follow-ups at set times');
  const schedule = adder(cli, schedules, () => import('./schedule-commands.js'));
  const overlap = 'what to do if the previous firing still runs (default: skip)';
  const create = schedule('create', CREATE_EXAMPLE, (code) => code.createSchedule)
    .description('start a batch of follow-ups at set times; each firing is a separate batch')
    .argument('<name>', 'unique in the namespace; 1 to 90 of A-Z a-z 0-9 . _ ~ -')
    .argument('<file>', 'the batch, at most 256 KiB of JSON; - reads stdin')
    .option('--cron <expression>', 'when to fire, such as "0 2 * * MON-FRI"')
    .option('--every <duration>', 'fire at this interval from 1970-01-01T00:00:00Z on, 1s to 365d')
    .option('--offset <duration>', 'with --every: how long after the start of each interval to fire (default: 0)')
    .option('--time-zone <zone>', 'with --cron: its time zone, such as Europe/Berlin (default: UTC)')
    .addOption(choice('--overlap <policy>', overlap, scheduleOverlaps))
    .option('--catch-up-window <duration>', 'how late a firing may start after an outage of Temporal (default: 1h)')
    .option('--limit <n>', 'maximum number of firings (default: no limit)')
    .option('--note <text>', 'shown with the schedule')
    .option('--paused', 'create it paused, until "follow-up schedule resume"');
  addLimitOptions(create).addHelpText('after', CREATE_HELP);
  schedule('list', '% --json', (code) => code.listSchedules).description('list schedules with their next firing');
  for (const name of Object.keys(scheduleActions) as (keyof typeof scheduleActions)[]) {
    const command = schedule(`${name} <schedule>`, '% nightly', (code) => code.scheduleActions[name]).description(
      scheduleActions[name],
    );
    if (name === 'pause') command.option('--note <reason>', 'shown instead of its own note until it is resumed');
  }
}

function addBudgetCommands(program: Command, cli: Cli): void {
  const budgets = program.command('budget').description('show, change, pause and restore the budget of a project');
  const budget = adder(cli, budgets, () => import('./budget-commands.js'));
  budget('list', '% --json', (code) => code.showBudgets).description(
    'list the running budgets of all projects: slots, queue and pauses of those in use',
  );
  budget('show <project>', '% my-project --watch', (code) => code.showBudget)
    .description('show the slots, the queue and the last sends of a project')
    .option('-w, --watch', 'keep showing it: live on a terminal, otherwise one line per change; Ctrl-C ends it');
  budget('set <project>', '% my-project --limit 50 --window 1h --reserve 10', (code) => code.setBudget)
    .description('change the limit, window or reserve at once; the others stay')
    .option(
      '--limit <n>',
      'messages per window, 0 to 10000; if more are in use, nothing is sent until enough slots expire',
    )
    .option('--window <duration>', 'length of the rolling window, 1s to 365d')
    .option('--reserve <n>', 'slots kept free of the batch lane, below the limit');
  budget('take <project>', '% my-project --count 3 --key deploy-bot-42', (code) => code.takeSlots)
    .description('count slots as used for messages that other software sends: all or none')
    .option('--count <n>', 'how many slots (default: 1)')
    .option('--key <key>', 'the same key takes slots only once (default: random)')
    .addHelpText(
      'after',
      '\nThe exit code is 1 if they are not taken. The output says when they can be,\nif that is known.',
    );
  budget('pause <project>', '% my-project --for 30m --note "release freeze"', (code) => code.pauseBudget)
    .description('stop sending; sends in progress finish, and the queue is kept')
    .option('--for <duration>', 'resume automatically after this time (default: wait for "budget resume")')
    .option('--note <text>', 'shown with the pause, at most 200 characters');
  budget('resume <project>', '% my-project', (code) => code.resumeBudget).description(
    'end a pause; if the service caused it, the next follow-up tries at once',
  );
  budget('audit <project>', '% my-project --json', (code) => code.auditBudget).description(
    'list the latest sends, newest first: when each was granted, its outcome, and when that was reported',
  );
  budget('restore <project>', '% my-project', (code) => code.restoreBudget)
    .description(
      'restart a budget that is stopped or whose tasks fail; it counts earlier sends itself, and waiting follow-ups continue',
    )
    .option('--assume-full', 'also count all free slots as used, so that nothing is sent for one window');
}

/** Returns a function that adds the commands of a module: name and arguments, example, and function. */
function adder<Code>(cli: Cli, parent: Command, load: () => Promise<Code>) {
  return (words: string, example: string, choose: (code: Code) => Run): Command => {
    const command = parent.command(words);
    const name = parent.parent ? `${parent.name()} ${command.name()}` : command.name();
    return command
      .addHelpText('after', `\nExample:\n  $ ${example.replace('%', `follow-up ${name}`)}`)
      .action(async (...args: unknown[]) => {
        const run = choose(await load());
        cli.exitCode = (await run(cli, ...(args as never[]))) ?? ExitCode.ok;
      });
  };
}

const WORKER_EXAMPLE = `AGENT_JOBS_BASE_URL=https://api.example.com \\
      AGENT_JOBS_API_KEY_FILE=/run/secrets/key %`;
const SEND_EXAMPLE = '% my-project job-42 \\\n      --prompt "Add tests for the parser." --key parser-tests';
const CREATE_EXAMPLE = '% nightly jobs.jsonl \\\n      --cron "0 4 * * MON-FRI" --time-zone Europe/Berlin';
const EXAMPLE_ID = 'follow-up/my-project/job-42/parser-tests';
const EXAMPLE_BATCH = 'nightly-2026-11-21';
const ONLY_HELP =
  'failed: the agent job failed, or nothing was delivered; unknown: the delivery is unknown, so the message may be delivered twice (default: both)';

const COMPLETION_HELP = `
Examples:
  $ echo 'source <(follow-up completion bash)' >> ~/.bashrc
  $ echo 'source <(follow-up completion zsh)' >> ~/.zshrc
  $ echo 'follow-up completion fish | source' >> ~/.config/fish/config.fish`;

const CREATE_HELP = `
Cron: minute, hour, day of month, month, day of week, or @hourly, @daily,
@weekly, @monthly, @yearly. Day of month and day of week must both match.

FILE has one follow-up as JSON per line, as for "follow-up batch run", or is one
JSON document: {"items": […]} or {"projectId": …, "prompt": …, "jobIds": […]}.
You cannot change a schedule: delete it and create it again.`;

const scheduleActions = {
  describe: 'show the times and policies of a schedule, its next firings and its latest 10',
  pause: 'stop firing until resumed; a running batch continues',
  resume: 'fire again from the next time on',
  trigger: "fire now, even while paused, under the schedule's overlap policy",
  delete: 'delete a schedule; running batches continue',
};

const ARGUMENTS: Record<string, string> = {
  project: 'project id',
  job: 'job id',
  '-': 'read the message from stdin',
  workflowId: 'as "follow-up send" and "follow-up list" print it',
  batch: 'batch id',
  schedule: 'as "follow-up schedule list" prints it',
};

/**
 * Adds `--json` to every command, and descriptions to its arguments. Digits become numbers; other text is checked later
 * with all other fields.
 */
function finish(command: Command): void {
  command.commands.forEach(finish);
  if (command.commands.length > 0) return;
  for (const argument of command.registeredArguments) argument.description ||= ARGUMENTS[argument.name()] ?? '';
  for (const option of command.options.filter(({ flags }) => /<(n|number|duration|port|time)>$/.test(flags))) {
    option.argParser((text) => (/^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text));
  }
  command.option('--json', 'print one JSON document (lists: one per line) on stdout, everything else on stderr');
}

/**
 * An option with known values, for help and completion. Commander does not check them: they are checked with all other
 * fields, so that one message names every invalid field.
 */
function choice(flags: string, description: string, values: readonly string[]): Option {
  const option = new Option(flags, description);
  option.argChoices = [...values];
  return option;
}

function addPromptOptions(command: Command): Command {
  // Of two messages, one would be lost. Of any other option, the last value counts.
  const once = (text: string, previous: unknown) => {
    if (previous === undefined) return text;
    throw new InvalidArgumentError('Set the prompt once.');
  };
  return command
    .option('-p, --prompt <text>', 'the message; - reads it from stdin', once)
    .option('-f, --prompt-file <file>', 'file with the message; - reads it from stdin', once);
}

/** Adds an option for every field of a follow-up's input except ids and prompt. */
function addSettingOptions(command: Command, defaultLane: (typeof lanes)[number]): Command {
  const unknown = 'what to do if the delivery is unknown (default: fail)';
  const active = 'what to do if the job works on another message (default: wait)';
  const settleTimeHelp = 'how long after the send to distrust an unchanged terminal status (default: 120s)';
  return command
    .addOption(choice('--lane <lane>', `interactive goes first (default: ${defaultLane})`, lanes))
    .addOption(choice('--on-unknown-delivery <action>', unknown, unknownDeliveryActions))
    .addOption(choice('--when-active <action>', active, whenActiveActions))
    .option('--poll-initial-interval <duration>', 'wait before the first poll (default: 5s)')
    .option('--poll-max-interval <duration>', 'longest wait between two polls (default: 60s)')
    .option('--poll-backoff-coefficient <number>', 'each wait is this many times the previous one (default: 1.5)')
    .option('--settle-time <duration>', settleTimeHelp)
    .option('--pr-link-grace <duration>', 'how long to wait for the pull request of a completed job (default: 30s)')
    .option('--job-timeout <duration>', 'longest wait for the job after the send (default: 24h)')
    .option('--budget-wait-timeout <duration>', 'longest wait before the send (default: 7d)');
}

function addNotifyOption(command: Command): Command {
  const collect = (name: string, names: string[] = []) => [...names, name];
  return command.option('--notify <webhook>', "notify this webhook of the worker's settings; repeatable", collect);
}

function addLimitOptions(command: Command): Command {
  return addNotifyOption(command)
    .option('--max-open <n>', 'maximum number of open follow-ups (default: 50)')
    .option('--canary <n>', 'hold the batch after its first items, until "batch continue"')
    .option('--max-failures <n>', 'hold the batch when more items than this fail; a number, or a share such as 5%')
    .option('--allow-duplicates', 'allow lines with the same project, job and prompt');
}
