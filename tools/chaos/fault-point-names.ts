/**
 * Steps of the send path at which a worker process is killed or stopped, in their order. Each send reaches each step
 * once. A send that waits repeats the steps of the ask.
 *
 * `worker`: fault-points.js sees the step in the worker's own process. `service`: the service sees it, and holds the
 * message until the worker is dead.
 */
export const faultPoints = [
  { name: 'workflow-task-received', seenBy: 'worker' },
  { name: 'ask-sending', seenBy: 'worker' },
  { name: 'ask-sent', seenBy: 'worker' },
  { name: 'grant-completing', seenBy: 'worker' },
  { name: 'grant-completed', seenBy: 'worker' },
  { name: 'ask-answered', seenBy: 'worker' },
  { name: 'send-completing', seenBy: 'worker' },
  { name: 'send-completed', seenBy: 'worker' },
  { name: 'activity-received', seenBy: 'worker' },
  { name: 'connecting', seenBy: 'worker' },
  { name: 'tcp-connected', seenBy: 'worker' },
  { name: 'connected', seenBy: 'worker' },
  { name: 'headers-writing', seenBy: 'worker' },
  { name: 'body-written', seenBy: 'worker' },
  { name: 'received', seenBy: 'service' },
  { name: 'recorded', seenBy: 'service' },
  { name: 'answered', seenBy: 'service' },
  { name: 'headers-received', seenBy: 'worker' },
  { name: 'body-received', seenBy: 'worker' },
  { name: 'activity-completing', seenBy: 'worker' },
  { name: 'activity-completed', seenBy: 'worker' },
  { name: 'settle-sending', seenBy: 'worker' },
  { name: 'settle-sent', seenBy: 'worker' },
  { name: 'settle-answered', seenBy: 'worker' },
  { name: 'finish-sending', seenBy: 'worker' },
  { name: 'finish-sent', seenBy: 'worker' },
  { name: 'finish-answered', seenBy: 'worker' },
  { name: 'end-completing', seenBy: 'worker' },
  { name: 'end-completed', seenBy: 'worker' },
] as const;

/** One of {@link faultPoints}. */
export type FaultPoint = (typeof faultPoints)[number];
export type FaultPointName = FaultPoint['name'];
