import { condition, defineSignal, setHandler, sleep } from '@temporalio/workflow';

const goOnSignal = defineSignal('goOn');

/** No run of the second version is left, so the patch is gone. */
export async function changing(): Promise<string> {
  let steps = 0;
  setHandler(goOnSignal, () => void (steps += 1));
  await condition(() => steps >= 1);
  await sleep(1);
  await sleep(2);
  await condition(() => steps >= 2);
  return 'two steps';
}
