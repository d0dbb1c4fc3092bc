import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import * as contract from '../../src/contract/index.js';

const sourceOf = (name: string) => readFileSync(join(import.meta.dirname, '../../src/contract', `${name}.ts`), 'utf8');

/** What `agent-follow-up/contract` publishes. A name that is added here must stay in later versions. */
const VALUES = `
  BatchErrorType
  DEFAULT_MAX_OPEN
  DEFAULT_TASK_QUEUE
  FailureType
  MAX_CANARY
  MAX_MAX_OPEN
  MAX_PIECE_BYTES
  MAX_PROMPT_BYTES
  MAX_RESULT_ITEMS
  SearchAttribute
  WorkflowIdPrefix
  WorkflowType
  addItemsUpdate
  agentJobSchema
  batchIdSchema
  batchItemKey
  batchItemsQuery
  batchItemsSchema
  batchStatusQuery
  batchStatusSchema
  blockReasons
  budgetStatusQuery
  budgetTaskQueue
  continueBatchUpdate
  deliveredValues
  describeIssues
  durationSchema
  endOf
  endStates
  failureDetailsSchema
  followUpBatchInputSchema
  followUpBatchResultSchema
  followUpBatchWorkflowId
  followUpInputSchema
  followUpProgressSchema
  followUpResultSchema
  followUpStates
  followUpWorkflowId
  formatDuration
  idSchema
  isEndState
  isTerminalStatus
  keySchema
  lanes
  openStates
  parseBatchInput
  parseDurationMs
  parseFollowUpBatchWorkflowId
  parseFollowUpWorkflowId
  parseInput
  parseProjectBudgetWorkflowId
  pauseInputSchema
  pauseUpdate
  pollNowSignal
  progressQuery
  projectBudgetWorkflowId
  refusals
  resolveDeliveryUpdate
  resolveWords
  resumeUpdate
  retryChoices
  scheduleOverlaps
  sealUpdate
  sendOutcomes
  sendingStates
  setLimitInputSchema
  setLimitUpdate
  takeInputSchema
  takeUpdate
  terminalStatuses
  unknownDeliveryActions
  waitReasons
  waitingStates
  whenActiveActions
  workflowIdIssue
`;
const TYPES = `
  AgentJob
  BatchContinued
  BatchCounts
  BatchErrorType
  BatchHold
  BatchIdParts
  BatchItem
  BatchItemError
  BatchItemsPage
  BatchItemsRange
  BatchOptions
  BatchStatus
  BatchTotal
  BlockReason
  BudgetSend
  BudgetStatus
  BudgetWaiter
  Delivered
  DurationInput
  EndFailure
  EndState
  EndedStanding
  FailureDetails
  FailureType
  FollowUpBatchInput
  FollowUpBatchResult
  FollowUpDefaults
  FollowUpFacts
  FollowUpIdParts
  FollowUpInput
  FollowUpProgress
  FollowUpResult
  FollowUpSettings
  FollowUpStanding
  FollowUpState
  InputIssue
  ItemOutcome
  Lane
  OpenState
  Parsed
  PauseInput
  PauseReason
  Refusal
  ResolveWord
  RetryChoice
  ScheduleOverlap
  SendOutcome
  SetLimitInput
  ShownPause
  TakeAnswer
  TakeInput
  TerminalStatus
  UnknownDeliveryAction
  WaitReason
  WhenActiveAction
`;

const namesIn = (text: string) => text.split(/\s+/).filter((name) => name !== '');

test('the contract publishes exactly these values', () => {
  expect(Object.keys(contract).sort()).toEqual(namesIn(VALUES).sort());
});

test('the contract publishes exactly these types, each by its name', () => {
  const index = sourceOf('index');
  const named = [...index.matchAll(/\btype (\w+)/g)];
  const whole = [...index.matchAll(/^export \* from '\.\/(.+)\.js'/gm)].flatMap(([, module = '']) => [
    ...sourceOf(module).matchAll(/^export (?:type|interface) (\w+)/gm),
  ]);
  expect([...named, ...whole].map(([, name]) => name).sort()).toEqual(namesIn(TYPES).sort());
});
