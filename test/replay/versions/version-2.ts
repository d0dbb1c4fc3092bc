import { condition, defineSignal, patched, setHandler, sleep } from '@temporalio/workflow';

const goOnSignal = defineSignal('goOn');

/** New runs have two steps. Runs that already passed the patch keep one. */
export async function changing(): Promise<string> {
  let steps = 0;
  setHandler(goOnSignal, () => void (steps += 1));
  await condition(() => steps >= 1);
  const hasTwoSteps = patched('two-steps');
  await sleep(1);
  if (hasTwoSteps) await sleep(2);
  await condition(() => steps >= 2);
  return hasTwoSteps ? 'two steps' : 'one step';
}
