/** All measurements, in the order of the table: field of a round, label, digits, and which is better. */
const ROWS = [
  ['followUpsPerSecond', 'follow-ups per second', 1, 'more'],
  ['eventsPerFollowUp', 'history events per follow-up', 1, 'less'],
  ['budgetEventsPerFollowUp', "budget's events, per follow-up", 1, 'less'],
  ['allEventsPerFollowUp', 'all events per follow-up', 1, 'less'],
  ['workerCpuMsPerLook', 'worker CPU, ms per poll', 1, 'less'],
  ['serverCpuMsPerLook', 'server CPU, ms per poll', 1, 'less'],
  ['allCpuMsPerLook', 'all CPU, ms per poll', 1, 'less'],
  ['readsBeforeSend', 'get-job calls before the send', 2, 'less'],
  ['readsAfterSend', 'get-job calls after the send', 2, 'less'],
  ['besideSlowP50Ms', 'start to message, median, ms', 0, 'less'],
  ['besideSlowP95Ms', 'start to message, 95 %, ms', 0, 'less'],
  ['idleWorkerMiB', 'idle worker, MiB', 1, 'less'],
];

/** Memory of sleeping follow-ups, one row for each number of them. */
const SLEEPING = /^mibOver(\d+)Asleep$/;

const COLUMN_WIDTH = 18;

/**
 * Averages the rounds of each side and compares the product with the others. A side without a measurement has no value.
 *
 * @param {{ product: object[], naive: object[], bare: object[] }} rounds
 * @param {string} measurement name of a measurement that each round has
 */
export function compare(rounds, measurement) {
  const [product, naive, bare] = [rounds.product, rounds.naive, rounds.bare].map((side) =>
    side.map((round) => round[measurement]),
  );
  const measured = Object.keys(product[0] ?? naive[0] ?? bare[0]);
  const sleeping = measured
    .filter((name) => SLEEPING.test(name))
    .map((name) => [name, `worker over idle, MiB, ${SLEEPING.exec(name)[1]} asleep`, 1, 'less']);
  return [...ROWS.filter(([name]) => measured.includes(name)), ...sleeping].map(([name, label, digits, better]) => {
    const [ours, loop, least] = [product, naive, bare].map((side) => summarize(side.map((round) => round[name])));
    const ratios = { overNaive: ours.mean / loop.mean, overBare: ours.mean / least.mean };
    return { name, label, better, digits, product: ours, naive: loop, bare: least, ...ratios };
  });
}

function summarize(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { mean, min: Math.min(...values), max: Math.max(...values) };
}

/** The comparison as a table for people. It shows a range if rounds differ. */
export function toText(rows) {
  const show = ({ mean, min, max }, digits) => {
    if (Number.isNaN(mean)) return '-';
    const [shown, low, high] = [mean, min, max].map((value) => value.toFixed(digits));
    return low === high ? shown : `${shown} (${low}-${high})`;
  };
  const times = (ratio) => (Number.isFinite(ratio) ? ratio.toFixed(2) : '-');
  const line = (label, ...cells) => `${label.padEnd(36)}${cells.map((cell) => cell.padStart(COLUMN_WIDTH)).join('')}`;
  return [
    line('', 'naive', 'bare', 'this project', 'over naive', 'over bare', 'better'),
    ...rows.map(({ label, digits, naive, bare, product, overNaive, overBare, better }) =>
      line(
        label,
        ...[naive, bare, product].map((side) => show(side, digits)),
        times(overNaive),
        times(overBare),
        better,
      ),
    ),
  ].join('\n');
}
