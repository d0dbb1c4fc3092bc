import { expect, test } from 'vitest';
import { followUpInputSchema } from '../../src/contract/index.js';
import { FollowUpFlow } from '../../src/follow-up/flow.js';
import type { FollowUpPort } from '../../src/follow-up/port.js';
import { newFollowUpState, type Reconciling } from '../../src/follow-up/state.js';

test('an operator’s word is accepted while the delivery is in doubt, and refused before and after', () => {
  const settings = followUpInputSchema.parse({ projectId: 'p', jobId: 'j', prompt: 'x' });
  const state = newFollowUpState({ startedAtMs: 0, isFirstRun: true, settings });
  const flow = new FollowUpFlow(settings, state, { nowMs: () => 0, show: () => undefined } as unknown as FollowUpPort);
  expect(flow.refusalOfWord('sent')).toContain('the follow-up is not reconciling (it is sending)');

  const reconciling: Reconciling = {
    kind: 'reconciling',
    baseline: {},
    grantedAtMs: 0,
    untilMs: 1,
    askAgainFirst: false,
    operatorWord: null,
    intervalMs: 1,
  };
  state.phase = reconciling;
  flow.show({ state: 'reconciling', nextLookAtMs: null });
  expect(flow.refusalOfWord('sent')).toBeUndefined();
  expect(flow.refusalOfWord('perhaps')).toBe(`must be 'sent' or 'notSent' (given "perhaps")`);
  flow.resolveDelivery('sent');
  expect(reconciling.operatorWord).toBe('sent');

  flow.show({ state: 'completed' });
  expect(flow.refusalOfWord('sent')).toContain('it is completed): its delivery is not in doubt');
});
