import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import * as contract from '../../src/contract/index.js';

const source = readFileSync(join(import.meta.dirname, '../../src/contract/index.ts'), 'utf8');

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
  batchStatusQuery
  blockReasons
  budgetStatusQuery
  budgetTaskQueue
  continueBatchUpdate
  describeIssues
  durationSchema
  endOf
  endStates
  followUpBatchInputSchema
  followUpBatchResultSchema
  followUpBatchWorkflowId
  followUpInputSchema
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
  resolveDeliveryUpdate
  resolveWords
  resumeUpdate
  sealUpdate
  sendOutcomes
  setLimitInputSchema
  setLimitUpdate
  terminalStatuses
  unknownDeliveryActions
  waitReasons
  whenActiveActions
  workflowIdIssue
`;
const TYPES = `
  AgentJob
  BatchContinued
  BatchCounts
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
  Lane
  OpenState
  Parsed
  PauseInput
  PauseReason
  Refusal
  ResolveWord
  SendOutcome
  SetLimitInput
  ShownPause
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
  const published = [...source.matchAll(/\btype (\w+)/g)].map(([, name]) => name ?? '');
  expect(published.sort()).toEqual(namesIn(TYPES).sort());
  expect(source).not.toContain('export *');
});
