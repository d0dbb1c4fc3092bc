import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { hash64 } from '../../src/common/index.js';
import {
  describeIssues,
  durationSchema,
  endOf,
  FailureType,
  followUpInputSchema,
  followUpWorkflowId,
  formatDuration,
  idSchema,
  keySchema,
  parseDurationMs,
  parseFollowUpWorkflowId,
  parseInput,
  parseProjectBudgetWorkflowId,
  projectBudgetWorkflowId,
} from '../../src/contract/index.js';
import { webhookId } from '../../src/protocol/index.js';

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

  test('are not parsed if they have another form', () => {
    const paths = ['p/j', 'p/j/k/l', '../j/k', 'p/j/'].map((path) => `follow-up/${path}`);
    for (const workflowId of ['', 'p/j/k', 'project-budget/p/q', ...paths]) {
      expect(parseFollowUpWorkflowId(workflowId), workflowId).toBeUndefined();
      expect(parseProjectBudgetWorkflowId(workflowId), workflowId).toBeUndefined();
    }
  });

  test('are safe in a URL path', () => {
    for (const text of ['..', 'a..b', '.a', '~a', ':a', '-..', 'a/b', 'a%2e', 'a b', '', 'ä', 'a'.repeat(129), 'a\n']) {
      expect(idSchema.safeParse(text).success, text).toBe(false);
      expect(keySchema.safeParse(text).success, text).toBe(false);
    }
    // An object cannot have it as a key.
    expect(idSchema.safeParse('__proto__').success).toBe(false);
  });
});

describe('durations', () => {
  test('are whole milliseconds, or text with a unit', () => {
    const good = { '0ms': 0, '1.5ms': 2, '90s': 90_000, '5m': 300_000, '1.5h': 5_400_000, '7d': 604_800_000 };
    const bad = [-1, 1.5, NaN, Infinity, '', '5', '5 s', 's', '-1s', '1e3s', '.5s', '1,5s', `${'9'.repeat(20)}d`, null];
    expect([0, 1_500].map(parseDurationMs)).toEqual([0, 1_500]);
    expect(Object.keys(good).map(parseDurationMs)).toEqual(Object.values(good));
    expect(bad.filter((value) => parseDurationMs(value) !== undefined)).toEqual([]);
  });

  test('respect their bounds, which are allowed themselves', () => {
    const fits = (value: unknown) => durationSchema('1s', '1m').safeParse(value).success;
    const values = ['1s', '1m', 1_000, 60_000, '999ms', 60_001];
    expect(values.map(fits)).toEqual([true, true, true, true, false, false]);
  });

  test('are shown with at most two units', () => {
    const texts = { '0 ms': 0, '999 ms': 999, '45 s': 45_000, '13 h 5 min': 47_100_000, '1 d 1 h': 90_061_000 };
    expect(Object.values(texts).map(formatDuration)).toEqual(Object.keys(texts));
  });
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
    for (const input of [
      bottomless,
      { ...valid, prompt: bottomless },
      fields,
      { ...valid, lane: 'x'.repeat(1_000_000) },
      { ['x'.repeat(1_000_000)]: 1 },
    ]) {
      const parsed = parseInput(followUpInputSchema, input);
      expect(parsed.ok).toBe(false);
      expect(JSON.stringify(parsed).length).toBeLessThan(20_000);
    }
  });

  test('is accepted or refused without an exception, whatever JSON it is', () => {
    const property = fc.property(fc.jsonValue(), (value) => {
      const parsed = parseInput(followUpInputSchema, value);
      if (!parsed.ok) expect(parsed.issues.length).toBeGreaterThan(0);
    });
    fc.assert(property);
  });
});

test('the end state of a follow-up says how its job ended, or whether its message was delivered', () => {
  const ends = (['completed', 'archived', 'failed'] as const).map((status) => endOf({ status }));
  expect(ends.map(({ state }) => state)).toEqual(['completed', 'archived', 'job-failed']);
  const notSent = [
    'InvalidInput',
    'JobNotFound',
    'JobArchived',
    'MessageRejected',
    'BudgetWaitTimeout',
    'Closed',
  ] as const;
  for (const [type, delivered, state] of [
    ...notSent.map((type) => [type, 'no', 'not-sent'] as const),
    ...[['Cancelled', 'no', 'cancelled'] as const, ['Cancelled', 'yes', 'cancelled'] as const],
    ...[['JobTimeout', 'yes', 'timed-out'] as const, ['JobNotFound', 'yes', 'job-failed'] as const],
    ...Object.values(FailureType).map((type) => [type, 'unknown', 'delivery-unknown'] as const),
  ]) {
    const failure = { type, delivered, message: 'why' };
    expect(endOf(failure)).toEqual({ state, failure });
  }
});

test('a webhook has the same id in whatever order its counts come, and another id with other counts', () => {
  const counts = { total: 3, completed: 0, archived: 0, failed: 0, errors: 3, unknown: 0 };
  const end = (errorsByType: Record<string, number>) => {
    const data = { workflowId: 'follow-up-batch/b', batchId: 'b', ...counts, errorsByType };
    return webhookId('run', { type: 'batch.ended', data });
  };
  const id = end({ JobNotFound: 1, JobArchived: 2 });
  expect(end({ JobArchived: 2, JobNotFound: 1 })).toBe(id);
  expect(end({ JobArchived: 1, JobNotFound: 2 })).not.toBe(id);
  expect(id).toMatch(/^run-[\w-]{11}$/);
});

test('the hash of an id is 11 characters of base64url, and 20,000 ids share none', () => {
  const hashes = new Set(Array.from({ length: 20_000 }, (_, index) => hash64(`follow-up/p/job-${index}/k`)));
  expect(hashes.size).toBe(20_000);
  expect([...hashes].every((hash) => /^[\w-]{11}$/.test(hash))).toBe(true);
});
