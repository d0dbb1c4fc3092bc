/**
 * Steps of the send path at which a worker process is killed or stopped, in their order. Each send reaches each step
 * once. A send that waits repeats the steps of the ask.
 *
 * `worker`: fault-points.js sees the step in the worker's own process. `service`: the service sees it, and holds the
 * message until the worker is dead. `isShared`: concurrent sends may reach the step together, and it then counts once.
 */
export const faultPoints = [
  { name: 'workflow-task-received', seenBy: 'worker', isShared: false },
  { name: 'send-completing', seenBy: 'worker', isShared: false },
  { name: 'send-completed', seenBy: 'worker', isShared: false },
  { name: 'activity-received', seenBy: 'worker', isShared: false },
  { name: 'ask-sending', seenBy: 'worker', isShared: true },
  { name: 'ask-sent', seenBy: 'worker', isShared: true },
  { name: 'grant-completing', seenBy: 'worker', isShared: true },
  { name: 'grant-completed', seenBy: 'worker', isShared: true },
  { name: 'ask-answered', seenBy: 'worker', isShared: true },
  { name: 'note-sending', seenBy: 'worker', isShared: false },
  { name: 'note-sent', seenBy: 'worker', isShared: false },
  { name: 'note-answered', seenBy: 'worker', isShared: false },
  { name: 'connecting', seenBy: 'worker', isShared: false },
  { name: 'tcp-connected', seenBy: 'worker', isShared: false },
  { name: 'connected', seenBy: 'worker', isShared: false },
  { name: 'headers-writing', seenBy: 'worker', isShared: false },
  { name: 'body-written', seenBy: 'worker', isShared: false },
  { name: 'received', seenBy: 'service', isShared: false },
  { name: 'recorded', seenBy: 'service', isShared: false },
  { name: 'answered', seenBy: 'service', isShared: false },
  { name: 'headers-received', seenBy: 'worker', isShared: false },
  { name: 'body-received', seenBy: 'worker', isShared: false },
  { name: 'settle-sending', seenBy: 'worker', isShared: true },
  { name: 'settle-sent', seenBy: 'worker', isShared: true },
  { name: 'settle-answered', seenBy: 'worker', isShared: true },
  { name: 'activity-completing', seenBy: 'worker', isShared: false },
  { name: 'activity-completed', seenBy: 'worker', isShared: false },
  { name: 'finish-sending', seenBy: 'worker', isShared: true },
  { name: 'finish-sent', seenBy: 'worker', isShared: true },
  { name: 'finish-answered', seenBy: 'worker', isShared: true },
  { name: 'end-completing', seenBy: 'worker', isShared: false },
  { name: 'end-completed', seenBy: 'worker', isShared: false },
] as const;

/** One of {@link faultPoints}. */
export type FaultPoint = (typeof faultPoints)[number];
export type FaultPointName = FaultPoint['name'];
