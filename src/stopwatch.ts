/**
 * Milliseconds since the call. The larger of two clocks: the monotonic one stands still while the machine sleeps, the
 * wall clock may be set back.
 */
export function startStopwatch(): () => number {
  const monotonicMs = performance.now();
  const wallMs = Date.now();
  return () => Math.max(performance.now() - monotonicMs, Date.now() - wallMs);
}
