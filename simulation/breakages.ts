/**
 * Rules that can be taken out, one by one, to see that the simulation notices. All of it is done from outside the rules
 * module: the product has no switch for it.
 */
export const breakages = {
  nonce: "an attempt's token is its activity id and attempt number, which repeat after a reset",
  token: 'all attempts of a send share a token',
  unknown: 'a send whose outcome is unknown is taken to be not sent',
  belief: 'a terminal status is believed at once',
  finish: 'a follow-up does not tell the budget its end',
  claim: 'every ask says that none before it has sent',
  askNumber: 'a budget takes the ask that it hears last for the newest',
  mark: 'a grant is not noted with the server before the send',
  restore: 'a terminated budget starts empty',
  clock: 'budget time may go back, and slots are held no longer than the window',
  wall: 'the stopwatch before the first byte is the monotonic clock alone',
  ceiling: 'workers do not say what they let any budget grant',
  wait: 'a slot that is granted ahead is used at once',
  drain: 'a slot is not held for bytes that are still on their way',
  probeLease: 'a probe that never settles is never given up',
  awaitCancel: 'a cancelled follow-up does not await its running send',
} as const;

/** Name of a rule that can be taken out. */
export type Breakage = keyof typeof breakages;

/** Whether a text names a rule that can be taken out. */
export function isBreakage(text: string): text is Breakage {
  return Object.hasOwn(breakages, text);
}
