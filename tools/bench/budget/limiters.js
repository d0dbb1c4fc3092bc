import { endsOf, examine, Verdict } from './check.js';
import { startBudgetStack } from './stack.js';

const LIMIT = 20;
const WINDOW_MS = 10_000;
const FOLLOW_UPS = 60;

/** Every way in which a service may count. */
const KINDS = [
  { kind: 'sliding', retryAfter: 'none' },
  { kind: 'fixed', retryAfter: 'seconds' },
  { kind: 'token-bucket', retryAfter: 'date' },
  { kind: 'weighted', retryAfter: 'none' },
];

/**
 * Runs follow-ups against each kind of limiter, while somebody else spends 30 % of the same budget. No message may be
 * lost or doubled, and a project must continue by itself after a 429.
 */
export async function limiters({ env, seed }) {
  const verdict = new Verdict();
  const figures = [];
  for (const { kind, retryAfter } of KINDS) {
    const stack = await startBudgetStack({
      env,
      settings: {
        FOLLOW_UP_BUDGET_LIMIT: `${LIMIT}`,
        FOLLOW_UP_BUDGET_WINDOW: `${WINDOW_MS}ms`,
        FOLLOW_UP_MARGIN: '100ms',
      },
      simulator: { limiter: { kind, limit: LIMIT, windowMs: WINDOW_MS }, outsider: { share: 0.3 }, retryAfter, seed },
      workers: 1,
    });
    try {
      const handles = await stack.start(
        Array.from({ length: FOLLOW_UPS }, (_, index) => ({ projectId: kind, jobId: `job-${index}` })),
      );
      const ends = await endsOf(handles);
      const { sent, doubled, refused, spanS } = examine({
        ledger: stack.simulator.ledger,
        projectId: kind,
        limit: LIMIT,
        windowMs: WINDOW_MS,
      });
      verdict.expect(ends['completed/sent'] === FOLLOW_UPS, `${kind}: ends ${JSON.stringify(ends)}`);
      verdict.expect(sent === FOLLOW_UPS && doubled === 0, `${kind}: ${sent} sent, ${doubled} doubled`);
      figures.push({ kind, retryAfter, sent, refused, spanS });
    } finally {
      await stack.stop();
    }
  }
  return { figures, failures: verdict.failures };
}
