import type { Command } from 'commander';
import type { Lane } from '../contract/index.js';
import { type PromptSource, readPrompt } from './prompt.js';

/** What commander makes of {@link addSettingOptions}. */
export interface SettingOptions {
  lane?: string;
  onUnknownDelivery?: string;
  whenActive?: string;
  pollInitialInterval?: string;
  pollMaxInterval?: string;
  pollBackoffCoefficient?: string;
  settleTime?: string;
  jobTimeout?: string;
  budgetWaitTimeout?: string;
}

/** What commander makes of {@link addFollowUpOptions}. */
export interface FollowUpOptions extends SettingOptions, PromptSource {
  key?: string;
}

/** Adds an option for every field of a follow-up's input but the ids. */
export function addFollowUpOptions(command: Command): Command {
  addPromptOptions(command).option(
    '-k, --key <key>',
    'unique within the job: the same key never sends a second message (default: random)',
  );
  return addSettingOptions(command, 'interactive');
}

/** Adds the options that say where the prompt comes from. */
export function addPromptOptions(command: Command): Command {
  return command
    .option('-p, --prompt <text>', 'the follow-up instruction; - reads it from stdin')
    .option('-f, --prompt-file <file>', 'file with the follow-up instruction; - reads it from stdin');
}

/** Adds an option for every field of a follow-up's input but ids and prompt. */
export function addSettingOptions(command: Command, defaultLane: Lane): Command {
  return command
    .option('--lane <lane>', `interactive or batch: whose turn is first (default: ${defaultLane})`)
    .option('--on-unknown-delivery <action>', 'fail, assumeSent or resend (default: fail)')
    .option('--when-active <action>', 'wait for a job that is at work, or send at once (default: wait)')
    .option('--poll-initial-interval <duration>', 'wait before the first poll (default: 5s)')
    .option('--poll-max-interval <duration>', 'longest wait between two polls (default: 60s)')
    .option('--poll-backoff-coefficient <number>', 'each wait is this many times the one before (default: 1.5)')
    .option('--settle-time <duration>', 'how long an unchanged terminal status is not believed (default: 120s)')
    .option('--job-timeout <duration>', 'longest wait for the job, from the send (default: 24h)')
    .option('--budget-wait-timeout <duration>', 'longest wait for everything before the send (default: 7d)');
}

/** The input that the options stand for, not checked yet. */
export async function toStartInput(projectId: string, jobId: string, options: FollowUpOptions): Promise<unknown> {
  return given({
    projectId,
    jobId,
    prompt: await readPrompt(options),
    key: options.key,
    ...toSettings(options),
  });
}

/** The settings that {@link addSettingOptions} stand for, not checked yet. */
export function toSettings(options: SettingOptions): Record<string, unknown> {
  const { pollInitialInterval, pollMaxInterval, pollBackoffCoefficient } = options;
  const poll = given({
    initialInterval: duration(pollInitialInterval),
    maxInterval: duration(pollMaxInterval),
    backoffCoefficient: number(pollBackoffCoefficient),
  });
  return given({
    lane: options.lane,
    onUnknownDelivery: options.onUnknownDelivery,
    whenActive: options.whenActive,
    poll: Object.keys(poll).length > 0 ? poll : undefined,
    settleTime: duration(options.settleTime),
    jobTimeout: duration(options.jobTimeout),
    budgetWaitTimeout: duration(options.budgetWaitTimeout),
  });
}

/** The fields that have a value. */
export function given(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** Digits alone are milliseconds. What is no duration goes on as it is, to be named with the other bad fields. */
export function duration(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : text;
}

/** Digits, with or without a fraction, are a number; all else goes on as it is. */
export function number(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}
