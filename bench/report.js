/** What is measured, in the order of the table: field of a round, label, digits, and what is better. */
const ROWS = [
  ['followUpsPerSecond', 'follow-ups per second', 1, 'more'],
  ['eventsPerFollowUp', 'history events per follow-up', 1, 'less'],
  ['gateEventsPerFollowUp', "budget's events, shared out", 1, 'less'],
  ['allEventsPerFollowUp', 'events together', 1, 'less'],
  ['workerCpuMsPerFollowUp', 'worker CPU, ms per follow-up', 1, 'less'],
  ['serverCpuMsPerFollowUp', 'server CPU, ms per follow-up', 1, 'less'],
  ['allCpuMsPerFollowUp', 'CPU together, ms per follow-up', 1, 'less'],
  ['readsBeforeSend', 'get-job calls before the send', 2, 'less'],
  ['readsAfterSend', 'get-job calls after the send', 2, 'less'],
  ['kibPerSleeping', 'worker memory, KiB per sleeping one', 1, 'less'],
  ['idleWorkerMiB', 'idle worker, MiB', 1, 'less'],
];

const COLUMN_WIDTH = 18;

/**
 * Averages the rounds of each side and sets them against each other.
 *
 * @param {{ product: object[], naive: object[] }} rounds
 */
export function compare(rounds) {
  return ROWS.map(([name, label, digits, better]) => {
    const [product, naive] = [rounds.product, rounds.naive].map((side) => summarize(side.map((round) => round[name])));
    return { name, label, better, digits, product, naive, ratio: naive.mean === 0 ? null : product.mean / naive.mean };
  });
}

function summarize(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { mean, min: Math.min(...values), max: Math.max(...values) };
}

/** The comparison as a table for people. A range stands where rounds differ. */
export function toText(rows) {
  const show = ({ mean, min, max }, digits) => {
    const [shown, low, high] = [mean, min, max].map((value) => value.toFixed(digits));
    return low === high ? shown : `${shown} (${low}-${high})`;
  };
  const line = (label, ...cells) => `${label.padEnd(36)}${cells.map((cell) => cell.padStart(COLUMN_WIDTH)).join('')}`;
  return [
    line('', 'naive', 'this project', 'ratio', 'better'),
    ...rows.map(({ label, digits, naive, product, ratio, better }) =>
      line(label, show(naive, digits), show(product, digits), ratio === null ? '-' : ratio.toFixed(2), better),
    ),
  ].join('\n');
}
