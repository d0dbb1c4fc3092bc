import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  describeIssues,
  durationSchema,
  endOf,
  endStates,
  FailureType,
  followUpInputSchema,
  followUpWorkflowId,
  formatDuration,
  idSchema,
  isEndState,
  keySchema,
  openStates,
  parseDurationMs,
  parseFollowUpWorkflowId,
  parseInput,
  parseProjectBudgetWorkflowId,
  projectBudgetWorkflowId,
} from '../../src/contract/index.js';
import { defined } from '../../src/contract/defined.js';
import { hash64 } from '../../src/contract/text.js';

describe('workflow ids', () => {
  const id = fc.stringMatching(/^[A-Za-z0-9_-][A-Za-z0-9._~-]{0,127}$/).filter((text) => !text.includes('..'));
  const key = fc.stringMatching(/^[A-Za-z0-9_-][A-Za-z0-9._~:-]{0,127}$/).filter((text) => !text.includes('..'));

  test('can be parsed into their parts', () => {
    const property = fc.property(fc.record({ projectId: id, jobId: id, key }), (parts) => {
      expect(parseFollowUpWorkflowId(followUpWorkflowId(parts))).toEqual(parts);
      expect(parseProjectBudgetWorkflowId(projectBudgetWorkflowId(parts.projectId))).toBe(parts.projectId);
    });
    fc.assert(property);
  });

  test.each([
    '',
    'follow-up/p/j',
    'follow-up/p/j/k/l',
    'follow-up/../j/k',
    'follow-up/p/j/',
    'project-budget/p/q',
    'p/j/k',
  ])('do not include %j', (workflowId) => {
    expect(parseFollowUpWorkflowId(workflowId)).toBeUndefined();
    expect(parseProjectBudgetWorkflowId(workflowId)).toBeUndefined();
  });

  test.each(['..', 'a..b', '.a', '~a', ':a', '-..', 'a/b', 'a%2e', 'a b', '', 'ä', 'a'.repeat(129), 'a\n'])(
    'refuse the id %j',
    (text) => {
      expect(idSchema.safeParse(text).success).toBe(false);
      expect(keySchema.safeParse(text).success).toBe(false);
    },
  );

  test('refuse the name that an object cannot have as a key', () => {
    expect(idSchema.safeParse('__proto__').success).toBe(false);
    expect(idSchema.safeParse('__proto_').success).toBe(true);
  });
});

describe('durations', () => {
  test.each([
    [0, 0],
    [1_500, 1_500],
    ['0ms', 0],
    ['90s', 90_000],
    ['1.5h', 5_400_000],
    ['7d', 604_800_000],
    ['5m', 300_000],
    ...[-1, 1.5, NaN, Infinity, '', '5', '5 s', '5 parsecs', 's', '-1s', '1e3s', '.5s', '1,5s', null, {}].map(
      (value): [unknown, undefined] => [value, undefined],
    ),
    [`${'9'.repeat(20)}d`, undefined],
  ])('%j is %s ms', (text, ms) => expect(parseDurationMs(text)).toBe(ms));

  test('respect their bounds, which are allowed themselves', () => {
    const fits = (value: unknown) => durationSchema('1s', '1m').safeParse(value).success;
    const values = ['1s', '1m', 1_000, 60_000, '999ms', 60_001];
    expect(values.map(fits)).toEqual([true, true, true, true, false, false]);
  });

  test.each([
    [0, '0 ms'],
    [999, '999 ms'],
    [45_000, '45 s'],
    [3_900_000, '1 h 5 min'],
    [86_400_000, '1 d'],
    [90_061_000, '1 d 1 h'],
  ])('%d ms reads %j', (ms, text) => expect(formatDuration(ms)).toBe(text));
});

describe('the input of a follow-up', () => {
  const valid = { projectId: 'p', jobId: 'j', prompt: 'hello' };
  const isTaken = (prompt: string) => followUpInputSchema.safeParse({ ...valid, prompt }).success;

  test('gets its defaults', () => {
    expect(followUpInputSchema.parse(valid)).toEqual({
      ...{ ...valid, lane: 'interactive', onUnknownDelivery: 'fail', whenActive: 'wait' },
      poll: { initialIntervalMs: 5_000, maxIntervalMs: 60_000, backoffCoefficient: 1.5 },
      ...{ settleTimeMs: 120_000, prLinkGraceMs: 30_000, jobTimeoutMs: 86_400_000, budgetWaitTimeoutMs: 604_800_000 },
    });
    expect(followUpInputSchema.parse({ ...valid, poll: { initialInterval: '5m' } }).poll.maxIntervalMs).toBe(300_000);
  });

  test('names every bad field, its value and the rule, in one line', () => {
    const parsed = parseInput(followUpInputSchema, { ...valid, prompt: '', settleTime: '5 parsecs', secret: 1 });
    const text = parsed.ok ? '' : describeIssues(parsed.issues);
    expect(text).toContain('prompt: must not be empty (given "")');
    expect(text).toMatch(/settleTime: must be whole milliseconds, or text such as.*"5 parsecs"/);
    expect(text).toContain('secret: unknown field');
  });

  test.each([
    ...[' ', '\n\t ', '\u00a0\u2003\ufeff'].map((prompt) => [prompt, 'must not be only white space'] as const),
    ...['\ud83d', 'half \udE00 a pair', '\ude00\ud83d'].map(
      (prompt) => [prompt, 'must be Unicode text: it has a lone surrogate'] as const,
    ),
  ])('refuses the prompt %j: it %s', (prompt, rule) => {
    const parsed = parseInput(followUpInputSchema, { ...valid, prompt });
    const message = `${rule} (given ${JSON.stringify(prompt)})`;
    expect(!parsed.ok && parsed.issues).toEqual([{ field: 'prompt', message }]);
  });

  test('measures a prompt in bytes of UTF-8', () => {
    const most = ['a'.repeat(262_144), '😀'.repeat(65_536)];
    expect(most.map(isTaken)).toEqual([true, true]);
    expect(most.map((text) => isTaken(`${text}a`))).toEqual([false, false]);
  });

  test('is refused with a short message even if it is deeply nested or has 100,000 unknown fields', () => {
    const bottomless: unknown = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000));
    const fields = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`field-${index}`, 1]));
    for (const input of [bottomless, { ...valid, prompt: bottomless }, fields, { ['x'.repeat(1_000_000)]: 1 }]) {
      const parsed = parseInput(followUpInputSchema, input);
      expect(parsed.ok).toBe(false);
      expect(JSON.stringify(parsed).length).toBeLessThan(20_000);
    }
  });

  test('never throws, whatever JSON it is', () => {
    const property = fc.property(fc.jsonValue(), (value) => {
      const parsed = parseInput(followUpInputSchema, value);
      if (!parsed.ok) expect(parsed.issues.length).toBeGreaterThan(0);
    });
    fc.assert(property);
  });
});

describe('the end state of a follow-up', () => {
  test.each([
    ['completed', 'completed'],
    ['archived', 'archived'],
    ['failed', 'job-failed'],
  ] as const)('a result with status %s is %s, without a failure', (status, state) => {
    expect({ failure: null, ...endOf({ status }) }).toEqual({ state, failure: null });
  });

  test.each([
    ...(['InvalidInput', 'JobNotFound', 'JobArchived', 'MessageRejected', 'BudgetWaitTimeout', 'Closed'] as const).map(
      (type) => [type, 'no', 'not-sent'] as const,
    ),
    ['Cancelled', 'no', 'cancelled'],
    ['Cancelled', 'yes', 'cancelled'],
    ['JobTimeout', 'yes', 'timed-out'],
    ['JobNotFound', 'yes', 'job-failed'],
    ...Object.values(FailureType).map((type) => [type, 'unknown', 'delivery-unknown'] as const),
  ] as const)('%s with delivered %s is %s, and keeps its failure', (type, delivered, state) => {
    const failure = { type, delivered, message: 'why' };
    expect(endOf(failure)).toEqual({ state, failure });
  });

  test('no state of a running follow-up counts as an end', () => {
    expect(openStates.filter(isEndState)).toEqual([]);
    expect(endStates.filter(isEndState)).toEqual(endStates);
  });
});

test('undefined fields are left out, and other falsy values stay', () => {
  const falsy = { zero: 0, empty: '', no: false, none: null };
  expect(Object.entries(defined({ ...falsy, note: undefined }))).toEqual(Object.entries(falsy));
});

test('the hash of an id is 11 characters of base64url, and 100,000 ids share none', () => {
  const hashes = new Set(Array.from({ length: 100_000 }, (_, index) => hash64(`follow-up/p/job-${index}/k`)));
  expect(hashes.size).toBe(100_000);
  expect([...hashes].every((hash) => /^[\w-]{11}$/.test(hash))).toBe(true);
});
