import { setTimeout as delay } from 'node:timers/promises';
import { SEND_START_TO_CLOSE_MS } from './lane.js';
import type { Outage } from './outage-scenario.js';
import type { ProxyMode, TcpProxy } from '../../test/support/tcp-proxy.js';

/** After this time the server has given up the send, and its completion is lost. */
const LOST_COMPLETION_MS = SEND_START_TO_CLOSE_MS + 8_000;

/** How long a message may take to arrive when the worker has just lost its connections. */
const MESSAGE_TIMEOUT_MS = 120_000;

/**
 * Faults of a network between a worker and Temporal. In one of ten, the service accepts a message, and its answer
 * reaches a worker that has lost Temporal and cannot report it.
 *
 * @param longestMs longest duration of an outage
 */
export function proxyOutage(proxy: TcpProxy, longestMs: number): Outage {
  let number = 0;
  return async (lane, random) => {
    number++;
    if (number % 10 === 3) {
      const hold = lane.oracle.hold(lane.projectId, 'recorded', 1);
      await lane.start(1);
      const taken = await Promise.race([
        hold.reached.then(() => true),
        delay(MESSAGE_TIMEOUT_MS, false, { ref: false }),
      ]);
      proxy.set({ kind: 'blackhole' });
      hold.release();
      await delay(LOST_COMPLETION_MS);
      heal(proxy);
      return taken ? 'completionLost' : 'blackhole';
    }
    const modes: ProxyMode[] = [
      { kind: 'pass' },
      { kind: 'blackhole' },
      { kind: 'lose-answers' },
      { kind: 'delay', ms: random.between(100, 3_000) },
    ];
    const mode = modes[random.between(0, modes.length - 1)] ?? { kind: 'pass' };
    proxy.set(mode);
    // Only a cut: connections are reset, and may be made again immediately.
    if (mode.kind === 'pass') proxy.cut();
    else await delay(random.between(1_000, longestMs));
    if (mode.kind === 'delay') await delay(mode.ms);
    heal(proxy);
    return mode.kind === 'pass' ? 'cut' : mode.kind;
  };
}

function heal(proxy: TcpProxy): void {
  proxy.set({ kind: 'pass' });
  proxy.cut();
}
