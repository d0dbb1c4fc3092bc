/** Preloaded into each thread of a worker, with `--expose-gc`: SIGUSR2 collects the garbage of all of them. */
import { BroadcastChannel, isMainThread } from 'node:worker_threads';

const channel = new BroadcastChannel('collect-garbage');
channel.onmessage = () => globalThis.gc();
channel.unref();
if (isMainThread) {
  process.on('SIGUSR2', () => {
    globalThis.gc();
    channel.postMessage('');
  });
}
