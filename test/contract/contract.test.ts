import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  describeIssues,
  durationSchema,
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
import { hash64 } from '../../src/contract/text.js';

const id = fc.stringMatching(/^[A-Za-z0-9_-][A-Za-z0-9._~-]{0,127}$/).filter((text) => !text.includes('..'));
const key = fc.stringMatching(/^[A-Za-z0-9_-][A-Za-z0-9._~:-]{0,127}$/).filter((text) => !text.includes('..'));

describe('workflow ids', () => {
  test('of follow-ups can be parsed into their parts', () => {
    fc.assert(
      fc.property(id, id, key, (projectId, jobId, k) => {
        const parts = { projectId, jobId, key: k };
        expect(parseFollowUpWorkflowId(followUpWorkflowId(parts))).toEqual(parts);
      }),
    );
  });

  test('of budgets can be parsed into their project', () => {
    fc.assert(
      fc.property(id, (projectId) => parseProjectBudgetWorkflowId(projectBudgetWorkflowId(projectId)) === projectId),
    );
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
  ])('%j is %d ms', (text, ms) => expect(parseDurationMs(text)).toBe(ms));

  test.each([
    -1,
    1.5,
    NaN,
    Infinity,
    '',
    '5',
    '5 s',
    '5 parsecs',
    's',
    '-1s',
    '1e3s',
    '.5s',
    '1,5s',
    null,
    {},
    '9'.repeat(20) + 'd',
  ])('%j is not a duration', (text) => expect(parseDurationMs(text)).toBeUndefined());

  test('respect their bounds, which are allowed themselves', () => {
    const schema = durationSchema('1s', '1m');
    expect(['1s', '1m', 1_000, 60_000].map((value) => schema.safeParse(value).success)).toEqual([
      true,
      true,
      true,
      true,
    ]);
    expect(['999ms', 60_001].map((value) => schema.safeParse(value).success)).toEqual([false, false]);
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

  test('gets its defaults', () => {
    expect(followUpInputSchema.parse(valid)).toEqual({
      ...valid,
      lane: 'interactive',
      onUnknownDelivery: 'fail',
      whenActive: 'wait',
      poll: { initialIntervalMs: 5_000, maxIntervalMs: 60_000, backoffCoefficient: 1.5 },
      settleTimeMs: 120_000,
      prLinkGraceMs: 30_000,
      jobTimeoutMs: 86_400_000,
      budgetWaitTimeoutMs: 604_800_000,
    });
  });

  test('raises the maximum interval to an initial interval above the default maximum', () => {
    expect(followUpInputSchema.parse({ ...valid, poll: { initialInterval: '5m' } }).poll.maxIntervalMs).toBe(300_000);
  });

  test('names every bad field, its value and the rule, in one line', () => {
    const parsed = parseInput(followUpInputSchema, { ...valid, prompt: '', settleTime: '5 parsecs', secret: 1 });
    expect(parsed.ok).toBe(false);
    const text = parsed.ok ? '' : describeIssues(parsed.issues);
    expect(text).toContain('prompt: must not be empty (given "")');
    expect(text).toContain('settleTime: must be whole milliseconds, or text such as');
    expect(text).toContain('"5 parsecs"');
    expect(text).toContain('secret: unknown field');
  });

  test.each([' ', '\n\t ', '\u00a0\u2003\ufeff'])('refuses a prompt that is only white space (%j)', (prompt) => {
    const parsed = parseInput(followUpInputSchema, { ...valid, prompt });
    expect(parsed.ok ? [] : parsed.issues).toEqual([
      { field: 'prompt', message: `must not be only white space (given ${JSON.stringify(prompt)})` },
    ]);
  });

  test.each(['\ud83d', 'half \udE00 a pair', '\ude00\ud83d'])(
    'refuses a prompt with half of a surrogate pair, which has no UTF-8 (%j)',
    (prompt) => {
      const parsed = parseInput(followUpInputSchema, { ...valid, prompt });
      expect(!parsed.ok && parsed.issues).toEqual([
        {
          field: 'prompt',
          message: `must be Unicode text: it has half of a surrogate pair (given ${JSON.stringify(prompt)})`,
        },
      ]);
      expect(followUpInputSchema.safeParse({ ...valid, prompt: 'a whole one: 😀' }).success).toBe(true);
    },
  );

  test('measures a prompt in bytes of UTF-8', () => {
    const prompt = (text: string) => followUpInputSchema.safeParse({ ...valid, prompt: text }).success;
    expect(prompt('a'.repeat(262_144))).toBe(true);
    expect(prompt('a'.repeat(262_145))).toBe(false);
    expect(prompt('😀'.repeat(65_536))).toBe(true);
    expect(prompt('😀'.repeat(65_536) + 'a')).toBe(false);
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
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const parsed = parseInput(followUpInputSchema, value);
        if (!parsed.ok) expect(parsed.issues.length).toBeGreaterThan(0);
      }),
    );
  });
});

test('the hash of an id is 11 characters of base64url, and 100,000 ids share none', () => {
  const hashes = new Set<string>();
  for (let index = 0; index < 100_000; index++) hashes.add(hash64(`follow-up/p/job-${index}/k`));
  expect(hashes.size).toBe(100_000);
  expect([...hashes].every((hash) => /^[\w-]{11}$/.test(hash))).toBe(true);
});
