import { askAndSend } from './ask.js';
import type { FollowUpFlow } from './flow.js';
import type { Ending, Steps } from './port.js';
import { reconcile } from './reconcile.js';
import type { Phase } from './state.js';
import { watch } from './watch.js';

/**
 * Runs a follow-up from its current state to the end of this run: ask, send, reconcile, watch. The flow decides and its
 * port acts. The workflow runs it on Temporal, the simulation in a simulated world.
 */
export function* run(flow: FollowUpFlow): Steps<Ending> {
  const { port, state } = flow;
  for (;;) {
    // Between steps nothing is under way.
    if (port.continueAsNewIsDue() && !flow.isCancelled) {
      if (port.replacesRun) {
        state.provenNotSent = false;
        state.replacesRun = true;
      }
      return { kind: 'continueAsNew' };
    }
    const step = yield* stepOf(flow);
    if (step.kind === 'result' || step.kind === 'failure' || step.kind === 'continueAsNew') return step;
    state.phase = step;
  }
}

function stepOf(flow: FollowUpFlow): Steps<Phase | Ending> {
  const { phase } = flow.state;
  switch (phase.kind) {
    case 'asking':
      return askAndSend(flow, phase);
    case 'reconciling':
      return reconcile(flow, phase);
    case 'watching':
      return watch(flow, phase);
  }
}
