import { afterAll, expect, test, vi } from 'vitest';
import { followUpInputSchema } from '../../src/contract/index.js';

type Validator = (word: unknown) => void;
const validators = new Map<string, Validator>();

// Between the decision and the end of the run lie a few milliseconds, which no server lets a test prolong.
// No other test file loads this module, so the worker has no copy of it with the real package.
vi.doMock(import('@temporalio/workflow'), async (importOriginal) => ({
  ...(await importOriginal()),
  setHandler: (({ name }: { name: string }, _handler: unknown, options?: { validator?: Validator }) => {
    if (options?.validator) validators.set(name, options.validator);
  }) as never,
  CancellationScope: { current: () => ({ cancelRequested: new Promise(() => undefined) }) } as never,
  proxyActivities: (() => ({})) as never,
  proxyLocalActivities: (() => ({})) as never,
  setCurrentDetails: () => undefined,
  upsertSearchAttributes: () => undefined,
}));
afterAll(() => vi.doUnmock('@temporalio/workflow'));
const { FollowUpContext } = await import('../../src/workflows/follow-up/context.js');
const { newFollowUpState } = await import('../../src/workflows/follow-up/state.js');

test('an operator’s word is taken while the delivery is in doubt, and refused once that has been decided', () => {
  const settings = followUpInputSchema.parse({ projectId: 'p', jobId: 'j', prompt: 'x' });
  const state = newFollowUpState({ startedAtMs: 0, isFirstRun: true, intervalMs: 1_000 });
  const context = new FollowUpContext(settings, state, undefined);
  const say = () => validators.get('resolveDelivery')?.('sent');
  expect(say).toThrow('the follow-up is not reconciling (it is sending)');
  state.phase = 'reconciling';
  context.show('reconciling');
  expect(say).not.toThrow();
  context.show('done');
  expect(say).toThrow('the follow-up is not reconciling (it is done): its delivery is not in doubt');
});
