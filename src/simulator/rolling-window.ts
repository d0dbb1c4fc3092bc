/**
 * The most instants that any rolling window holds. The window is half-open: two instants exactly `windowMs` apart do
 * not share one.
 *
 * @param instantsMs in any order
 */
export function maxInAnyWindow(instantsMs: readonly number[], windowMs: number): number {
  const sorted = [...instantsMs].sort((a, b) => a - b);
  let first = 0;
  let most = 0;
  for (const [index, instant] of sorted.entries()) {
    while ((sorted[first] ?? instant) <= instant - windowMs) first++;
    most = Math.max(most, index - first + 1);
  }
  return most;
}
