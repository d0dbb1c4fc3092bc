import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, inject, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { FAST, startStack, type StackOptions } from '../support/stack.js';

const LIMIT = 5;
const WINDOW_MS = 5_000;
const BUDGET = { FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`, FOLLOW_UP_BUDGET_WINDOW: '5s', FOLLOW_UP_MARGIN: '200ms' };

async function withStack(options: Omit<StackOptions, 'address'>, use: (stack: Stack) => Promise<void>) {
  const stack = await startStack({ address: inject('temporalAddress'), ...options });
  try {
    await use(stack);
  } finally {
    await stack.stop();
  }
}
type Stack = Awaited<ReturnType<typeof startStack>>;

function startMany(stack: Stack, projectId: string, count: number) {
  return Promise.all(
    Array.from({ length: count }, (_, index) => {
      const jobId = `job-${index}`;
      stack.simulator.addJob({ projectId, jobId });
      return stack.followUps.start({ projectId, jobId, prompt: `message ${index}`, ...FAST });
    }),
  );
}

function deliveredOf(stack: Stack, projectId: string): string[] {
  return stack.simulator.ledger
    .filter((entry) => entry.projectId === projectId && entry.accepted)
    .map((entry) => entry.jobId)
    .sort();
}

describe.concurrent('a budget whose service', () => {
  test.each([
    { kind: 'sliding', retryAfter: 'none' },
    { kind: 'fixed', retryAfter: 'seconds' },
    { kind: 'token-bucket', retryAfter: 'date' },
    { kind: 'weighted', retryAfter: 'none' },
  ] as const)(
    'counts by $kind with Retry-After $retryAfter, and lets others spend 30 %, loses nothing and repeats nothing',
    async ({ kind, retryAfter }) => {
      const limiter = { kind, limit: LIMIT, windowMs: WINDOW_MS };
      await withStack({ env: BUDGET, simulator: { limiter, outsider: { share: 0.3 }, retryAfter } }, async (stack) => {
        const handles = await startMany(stack, kind, 15);
        const results = await Promise.all(handles.map((handle) => handle.result()));
        expect(results.every(({ status, delivery }) => status === 'completed' && delivery === 'sent')).toBe(true);
        expect(deliveredOf(stack, kind)).toEqual(results.map(({ jobId }) => jobId).sort());
      });
    },
  );

  test('refuses three messages in a row continues by itself when they are accepted again', async () => {
    await withStack({ env: BUDGET }, async (stack) => {
      stack.simulator.failNext({ method: 'POST', how: { status: 429 }, times: 3 });
      const handles = await startMany(stack, 'refused', 4);
      const results = await Promise.all(handles.map((handle) => handle.result()));
      expect(results).toHaveLength(4);
      expect(deliveredOf(stack, 'refused')).toHaveLength(4);
    });
  });

  test('gets a wrong API key loses nothing, and continues by itself once the key file is corrected', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'key-'));
    const keyFile = join(directory, 'key');
    await writeFile(keyFile, 'a-key-that-was-revoked\n');
    try {
      const env = { ...BUDGET, AGENT_JOBS_API_KEY: '', AGENT_JOBS_API_KEY_FILE: keyFile };
      await withStack({ env }, async (stack) => {
        const handles = await startMany(stack, 'revoked', 3);
        for (const handle of handles) {
          await eventually('it says that it is blocked', async () => (await handle.progress()).state === 'blocked');
        }
        expect(stack.simulator.ledger.some((entry) => entry.accepted)).toBe(false);
        await writeFile(keyFile, `${stack.simulator.apiKey}\n`);
        const results = await Promise.all(handles.map((handle) => handle.result()));
        expect(results.every(({ status }) => status === 'completed')).toBe(true);
        expect(deliveredOf(stack, 'revoked')).toHaveLength(3);
      });
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });

  test('refuses its API key for messages pauses the project, fails nothing, and continues after a successful probe', async () => {
    await withStack({ env: BUDGET }, async (stack) => {
      stack.simulator.failNext({ method: 'POST', how: { status: 401 }, times: 2 });
      const handles = await startMany(stack, 'unauthorized', 4);
      await eventually('the project is paused', async () => {
        const status = await stack.followUps.budget('unauthorized').status();
        return status?.paused?.reasons.includes('credentials');
      });
      await Promise.all(handles.map((handle) => handle.result()));
      expect(deliveredOf(stack, 'unauthorized')).toHaveLength(4);
      expect((await stack.followUps.budget('unauthorized').status())?.paused).toBeUndefined();
    });
  });
});
