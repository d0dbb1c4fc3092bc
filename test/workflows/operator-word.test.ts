import { expect, test, vi } from 'vitest';
import { followUpInputSchema } from '../../src/contract/index.js';
import { FollowUpContext } from '../../src/workflows/follow-up/context.js';
import { newFollowUpState } from '../../src/workflows/follow-up/state.js';

type Validator = (word: unknown) => void;
const validators = vi.hoisted(() => new Map<string, Validator>());

// Between the decision and the end of the run lie a few milliseconds, which no server lets a test prolong.
vi.mock(import('@temporalio/workflow'), async (importOriginal) => ({
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
