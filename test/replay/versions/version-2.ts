import { condition, defineSignal, patched, setHandler, sleep } from '@temporalio/workflow';

const goOnSignal = defineSignal('goOn');

/** Two steps for new runs; those that went by before keep their one. */
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
