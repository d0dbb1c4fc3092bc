import { type Command, Argument } from 'commander';
import { followUpStates, resolveWords } from '../contract/choices.js';
import { addPromptOptions, addSettingOptions, choice, type LazyAction, withCommonOptions } from './command-options.js';

const EXAMPLE_ID = 'follow-up/my-project/job-42/parser-tests';

/** `follow-up send`, and the commands for a single follow-up. */
export function addFollowUpCommands(program: Command, action: LazyAction): void {
  const send = program
    .command('send')
    .description('send a message to an agent job and wait for its pull request')
    .argument('<project>', 'project id')
    .argument('<job>', 'job id')
    .argument('[-]', 'read the message from stdin');
  addPromptOptions(send).option(
    '-k, --key <key>',
    'unique within the job; the same key never sends a second message (default: random)',
  );
  addSettingOptions(send, 'interactive').option('--no-wait', 'start it and print its workflow id, without waiting');
  withCommonOptions(
    send,
    'follow-up send my-project job-42 \\\n      --prompt "Add tests for the parser." --key parser-tests',
  ).action(action(async () => (await import('./send.js')).send));

  const status = withWorkflowId(
    program
      .command('status')
      .description('show a follow-up: state, position in the queue, job, next poll, last error, result'),
  );
  withCommonOptions(status, `follow-up status ${EXAMPLE_ID}`).action(
    action(async () => (await import('./follow-up-actions.js')).showStatus),
  );

  const list = program
    .command('list')
    .description('list follow-ups, newest first')
    .option('--project <project>', 'only follow-ups of this project')
    .option('--job <job>', 'only follow-ups to this job')
    .option('--pr <url>', 'only follow-ups with this pull request')
    .option('--since <time>', 'only follow-ups started since then: 24h, or 2026-11-22T08:00:00Z')
    .addOption(choice('--state <state>', 'only follow-ups in this state', followUpStates))
    .option('--batch <batch>', 'only follow-ups of this batch');
  withCommonOptions(list, 'follow-up list --project my-project --state waiting-for-budget').action(
    action(async () => (await import('./follow-up-actions.js')).listFollowUps),
  );

  const cancel = withWorkflowId(
    program
      .command('cancel')
      .description('cancel a follow-up: before the send nothing is sent; after it the agent job continues'),
  );
  withCommonOptions(cancel, `follow-up cancel ${EXAMPLE_ID}`).action(
    action(async () => (await import('./follow-up-actions.js')).cancel),
  );

  const pollNow = withWorkflowId(program.command('poll-now').description('poll the job of a follow-up now'));
  withCommonOptions(pollNow, `follow-up poll-now ${EXAMPLE_ID}`).action(
    action(async () => (await import('./follow-up-actions.js')).pollNow),
  );

  const word = new Argument('<word>', 'notSent sends the message again');
  word.argChoices = [...resolveWords];
  const resolve = withWorkflowId(
    program.command('resolve').description('tell a reconciling follow-up whether its message was delivered'),
  ).addArgument(word);
  withCommonOptions(resolve, `follow-up resolve ${EXAMPLE_ID} sent`).action(
    action(async () => (await import('./follow-up-actions.js')).resolve),
  );
}

function withWorkflowId(command: Command): Command {
  return command.argument('<workflowId>', 'as "follow-up send" and "follow-up list" print it');
}
