import { endsOf, examine, Verdict } from './check.js';
import { startBudgetStack } from './stack.js';

const LIMIT = 20;
const WINDOW_MS = 20_000;
const FOLLOW_UPS = 120;
const PROJECT = 'estimates';
/**
 * Estimates of shorter waits are not judged: such a wait comes from the cap on unsettled sends, not from the budget.
 */
const SHORT_WAIT_MS = 5_000;
const WORST_SHARE = 0.05;

/** How accurate the first estimate is for each follow-up that waits for the budget. */
export async function estimates({ env }) {
  const verdict = new Verdict();
  const stack = await startBudgetStack({
    env,
    settings: {
      FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`,
      FOLLOW_UP_BUDGET_WINDOW: `${WINDOW_MS}ms`,
      FOLLOW_UP_MARGIN: '100ms',
    },
    simulator: { limiter: { kind: 'sliding', limit: LIMIT, windowMs: WINDOW_MS } },
  });
  try {
    const handles = await stack.start(
      Array.from({ length: FOLLOW_UPS }, (_, index) => ({ projectId: PROJECT, jobId: `job-${index}` })),
    );
    const ends = await endsOf(handles);
    const errors = [];
    let asks = 0;
    for (const handle of handles) {
      const { events } = await stack.client.workflow.getHandle(handle.workflowId).fetchHistory();
      const answers = answersOf(events);
      asks += answers.filter(({ isAnswerToAsk }) => isAnswerToAsk).length;
      const [first] = answers;
      const granted = answers.find(({ kind }) => kind === 'granted');
      if (first?.reason !== 'slot' || first.expectedAtMs === undefined || !granted) continue;
      const waitedMs = granted.grantedAtMs - first.atMs;
      if (waitedMs >= SHORT_WAIT_MS) errors.push((first.expectedAtMs - granted.grantedAtMs) / waitedMs);
    }
    errors.sort((a, b) => a - b);
    const worst = Math.max(...errors.map(Math.abs));
    const project = examine({ ledger: stack.simulator.ledger, projectId: PROJECT, limit: LIMIT, windowMs: WINDOW_MS });
    verdict.expect(errors.length >= FOLLOW_UPS - 2 * LIMIT, `only ${errors.length} estimates to judge`);
    verdict.expect(worst <= WORST_SHARE, `an estimate was wrong by ${(worst * 100).toFixed(1)} % of the wait`);
    return {
      figures: {
        judged: errors.length,
        earliest: errors[0],
        median: errors[Math.floor(errors.length / 2)],
        latest: errors.at(-1),
        asksPerFollowUp: asks / handles.length,
        utilisation: project.utilisation,
        ends,
      },
      failures: verdict.failures,
    };
  } finally {
    await stack.stop();
  }
}

/** The budget's answers, in order, each with its time: to asks, which are local activities, and by signals. */
function answersOf(events) {
  return events.flatMap(({ eventTime, markerRecordedEventAttributes: marker, ...event }) => {
    const signal = event.workflowExecutionSignaledEventAttributes;
    const payloads = signal?.signalName === 'budgetAnswer' ? signal.input.payloads : marker?.details?.result?.payloads;
    const told = payloads?.[0] && JSON.parse(Buffer.from(payloads[0].data).toString());
    const answer = signal ? told : told?.answer;
    if (!answer) return [];
    return [{ ...answer, isAnswerToAsk: !signal, atMs: Number(eventTime.seconds) * 1_000 + eventTime.nanos / 1e6 }];
  });
}
