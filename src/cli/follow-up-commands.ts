import { type Command, Argument } from 'commander';
import { followUpStates, resolveWords } from '../contract/choices.js';
import { addPromptOptions, addSettingOptions, choice, type LazyAction, withCommonOptions } from './options.js';

const EXAMPLE_ID = 'follow-up/my-project/job-42/parser-tests';

/** `follow-up send`, and what looks after one follow-up. */
export function addFollowUpCommands(program: Command, action: LazyAction): void {
  const send = program
    .command('send')
    .description('send a follow-up message to an agent job and wait for its pull request')
    .argument('<project>', 'project id')
    .argument('<job>', 'job id')
    .argument('[-]', 'a lone - reads the prompt from stdin');
  addPromptOptions(send).option(
    '-k, --key <key>',
    'unique within the job: the same key never sends a second message (default: random)',
  );
  addSettingOptions(send, 'interactive').option('--no-wait', 'only start it, and print its workflow id');
  withCommonOptions(
    send,
    'follow-up send my-project job-42 \\\n      --prompt "Add tests for the parser." --key parser-tests',
  ).action(action(async () => (await import('./send.js')).send));

  const status = withWorkflowId(
    program
      .command('status')
      .description('show where a follow-up stands: state, place in the queue, job, next poll, last error, result'),
  );
  withCommonOptions(status, `follow-up status ${EXAMPLE_ID}`).action(
    action(async () => (await import('./status.js')).showStatus),
  );

  const list = program
    .command('list')
    .description('list follow-ups, newest first')
    .option('--project <project>', 'only those of this project')
    .option('--job <job>', 'only those to this job')
    .option('--pr <url>', 'only those whose turn has shown this pull request')
    .option('--since <time>', 'only those started since: 24h, or 2026-11-22T08:00:00Z')
    .addOption(choice('--state <state>', 'only those in this state', followUpStates))
    .option('--batch <batch>', 'only those of this batch');
  withCommonOptions(list, 'follow-up list --project my-project --state waiting-for-budget').action(
    action(async () => (await import('./list.js')).listFollowUps),
  );

  const cancel = withWorkflowId(
    program
      .command('cancel')
      .description('ask a follow-up to end: before the send nothing is sent, after it the agent job itself runs on'),
  );
  withCommonOptions(cancel, `follow-up cancel ${EXAMPLE_ID}`).action(
    action(async () => (await import('./follow-up-orders.js')).cancel),
  );

  const pollNow = withWorkflowId(
    program.command('poll-now').description('ask a follow-up to look at its job now instead of at the next poll'),
  );
  withCommonOptions(pollNow, `follow-up poll-now ${EXAMPLE_ID}`).action(
    action(async () => (await import('./follow-up-orders.js')).pollNow),
  );

  const word = new Argument('<word>', 'after notSent the message is sent again');
  word.argChoices = [...resolveWords];
  const resolve = withWorkflowId(
    program.command('resolve').description('tell a follow-up that is reconciling whether its message was delivered'),
  ).addArgument(word);
  withCommonOptions(resolve, `follow-up resolve ${EXAMPLE_ID} sent`).action(
    action(async () => (await import('./follow-up-orders.js')).resolve),
  );
}

function withWorkflowId(command: Command): Command {
  return command.argument('<workflowId>', 'as "follow-up send" and "follow-up list" print it');
}
