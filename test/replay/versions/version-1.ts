import { condition, defineSignal, setHandler, sleep } from '@temporalio/workflow';

const goOnSignal = defineSignal('goOn');

/** The first version: one step between two waits. */
export async function changing(): Promise<string> {
  let steps = 0;
  setHandler(goOnSignal, () => void (steps += 1));
  await condition(() => steps >= 1);
  await sleep(1);
  await condition(() => steps >= 2);
  return 'one step';
}
