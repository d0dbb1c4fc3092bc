import { maxInAnyWindow } from '../../../dist/simulator/ledger.js';

/**
 * What a project's messages say about its budget.
 *
 * @param {object} run
 * @param {readonly object[]} run.ledger entries of the simulated service
 * @param {string} run.projectId
 * @param {number} run.limit
 * @param {number} run.windowMs
 */
export function examine({ ledger, projectId, limit, windowMs }) {
  const entries = ledger.filter((entry) => entry.projectId === projectId);
  const sent = entries.filter((entry) => entry.accepted);
  const instants = sent.map((entry) => entry.receivedAtMs).sort((a, b) => a - b);
  const spanMs = (instants.at(-1) ?? 0) - (instants[0] ?? 0);
  return {
    projectId,
    sent: sent.length,
    doubled: sent.length - new Set(sent.map((entry) => entry.jobId)).size,
    refused: entries.filter((entry) => entry.status === 429).length,
    mostInAnyWindow: maxInAnyWindow(instants, windowMs),
    /**
     * The time that the limit requires after the first window's burst, divided by the time taken. It counts whole
     * windows: however few messages a window has, its first comes a window after the first of the window before.
     */
    utilisation: spanMs > 0 ? (Math.ceil((sent.length - limit) / limit) * windowMs) / spanMs : 0,
    spanS: spanMs / 1_000,
    firstBurstS: ((instants[limit - 1] ?? 0) - (instants[0] ?? 0)) / 1_000,
    latenessMs: latenessOfCycles(instants, { limit, windowMs }),
  };
}

/** How much later than a window after its last use each slot was used again: the mean of each round. */
function latenessOfCycles(instants, { limit, windowMs }) {
  const lateMs = instants.slice(limit).map((atMs, index) => atMs - (instants[index] ?? 0) - windowMs);
  return Array.from({ length: Math.ceil(lateMs.length / limit) }, (_, round) => {
    const inRound = lateMs.slice(round * limit, (round + 1) * limit);
    return Math.round(inRound.reduce((sum, ms) => sum + ms, 0) / inRound.length);
  });
}

/** Counts the ends of follow-ups by kind: status and delivery, or the failure's type. */
export async function endsOf(handles) {
  const ends = await Promise.all(
    handles.map((handle) =>
      handle.result().then(
        (result) => `${result.status}/${result.delivery}`,
        (error) => error.type ?? error.name,
      ),
    ),
  );
  const counts = {};
  for (const end of ends) counts[end] = (counts[end] ?? 0) + 1;
  return counts;
}

/** Collects the expectations that do not hold. */
export class Verdict {
  failures = [];

  expect(holds, sentence) {
    if (!holds) this.failures.push(sentence);
  }
}
