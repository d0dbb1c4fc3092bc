/**
 * `npm run dev`: runs `follow-up dev`, and rebuilds and restarts it when a source changes. Arguments go to
 * `follow-up dev`. If a build fails, the old stack keeps running. Ctrl-C stops everything.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { sourceState } from '../../bin/checkout.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** Reading the state of all sources takes 5 ms. */
const CHECK_INTERVAL_MS = 300;

let stack;
let isStopping = false;

function run(script, ...args) {
  const child = spawn(process.execPath, [script, ...args], { cwd: root, stdio: 'inherit' });
  return { child, ended: once(child, 'close').then(([code]) => code) };
}

async function stopStack() {
  stack?.child.kill('SIGTERM');
  await stack?.ended;
}

/** `undefined` while a source is being replaced. */
function readState() {
  try {
    return sourceState(root);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  }
}

/** Waits until the sources differ from `built`, and have not changed for one interval. */
async function untilChanged(built) {
  for (let last = built; !isStopping;) {
    await sleep(CHECK_INTERVAL_MS);
    const state = readState();
    if (state !== undefined && state !== built && state === last) return;
    last = state;
  }
}

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    isStopping = true;
    // After Ctrl-C the terminal has told the stack as well, which ignores the second signal.
    stack?.child.kill(signal);
  });
}

while (!isStopping) {
  const state = readState();
  const isBuilt = (await run('bin/build.js', '--if-stale').ended) === 0;
  if (isBuilt && !isStopping) {
    await stopStack();
    stack = run('bin/follow-up.js', 'dev', ...process.argv.slice(2));
  }
  await untilChanged(state);
}
await stopStack();
