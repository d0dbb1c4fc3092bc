/**
 * Steps of the send path at which a worker process is killed or stopped, in their order. Each is reached once a send,
 * but for those of the asks, which waiting repeats.
 *
 * `worker`: seen by fault-points.js in the worker's own process. `service`: seen by the service, which holds the message
 * until the worker is dead.
 */
export const faultPoints = [
  { name: 'workflow-task-received', seenBy: 'worker' },
  { name: 'send-completing', seenBy: 'worker' },
  { name: 'send-completed', seenBy: 'worker' },
  { name: 'activity-received', seenBy: 'worker' },
  { name: 'ask-sending', seenBy: 'worker' },
  { name: 'ask-sent', seenBy: 'worker' },
  { name: 'grant-completing', seenBy: 'worker' },
  { name: 'grant-completed', seenBy: 'worker' },
  { name: 'ask-answered', seenBy: 'worker' },
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
  { name: 'settle-sending', seenBy: 'worker' },
  { name: 'settle-sent', seenBy: 'worker' },
  { name: 'settle-answered', seenBy: 'worker' },
  { name: 'activity-completing', seenBy: 'worker' },
  { name: 'activity-completed', seenBy: 'worker' },
  { name: 'finish-completing', seenBy: 'worker' },
  { name: 'finish-completed', seenBy: 'worker' },
  { name: 'end-completing', seenBy: 'worker' },
  { name: 'end-completed', seenBy: 'worker' },
] as const;

/** One of {@link faultPoints}. */
export type FaultPoint = (typeof faultPoints)[number];
export type FaultPointName = FaultPoint['name'];
