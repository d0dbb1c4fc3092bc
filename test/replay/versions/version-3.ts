import { condition, defineSignal, deprecatePatch, setHandler, sleep } from '@temporalio/workflow';

const goOnSignal = defineSignal('goOn');

/** No run of the first version is left, so the old path is gone. */
export async function changing(): Promise<string> {
  let steps = 0;
  setHandler(goOnSignal, () => void (steps += 1));
  await condition(() => steps >= 1);
  deprecatePatch('two-steps');
  await sleep(1);
  await sleep(2);
  await condition(() => steps >= 2);
  return 'two steps';
}
