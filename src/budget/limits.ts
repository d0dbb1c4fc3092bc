/** The first in line asks again after that long at most, so that no lost wake leaves a slot idle for longer. */
export const RECHECK_MS = 60_000;

/** Everybody else asks again after about that long: a wake comes first, and an ask costs a read and a dozen events. */
export const RECHECK_BEHIND_MS = 10 * 60_000;

/** Between the rechecks of two waiters, so that they do not all ask at once. */
export const SPREAD_MS = 200;

/**
 * A slot is given to somebody that long before it ends; the send waits for the end. It is what an invitation takes at
 * most: the wake, the look at the job and the ask are over by then, and no slot time is lost to them.
 */
export const GRANT_AHEAD_MS = 2_000;

/** An invited waiter that does not ask within it counts for nothing until it does. */
export const INVITATION_GRACE_MS = 2_000;

/** How long a send is expected to take while none was seen, for estimates only. */
export const SEND_ESTIMATE_MS = 1_000;

/** How long a freed slot is expected to stay unused. For estimates only. */
export const REUSE_ESTIMATE_MS = 50;

/** Settled sends whose mean is what the next one is expected to take. */
export const ESTIMATED_FROM = 20;

/**
 * A waiter sleeps that much longer than its estimate: its invitation wakes it in time, and an ask that comes too early
 * costs more than a wake.
 */
export const OVERSLEEP_MS = 1_000;

/** Sends that are granted and not settled at once. Bounds what is lost when outsiders have spent the hour: 10 slots, not 100. */
export const MAX_UNSETTLED = 10;

/**
 * Ten follow-ups of a budget that was silent are woken in that time: more than ten at once would find the sends in flight
 * at their bound, and have to ask twice.
 */
export const WAKE_TEN_MS = 1_000;

/**
 * After a second refusal within a window, sends come at least window / limit apart. Each further refusal makes that gap
 * longer by this factor, each send that the service takes makes it shorter, until it is so small a share that it goes.
 */
export const GAP_AFTER_REFUSAL = 1.25;
export const GAP_AFTER_SEND = 0.95;
export const SHORTEST_GAP_SHARE = 0.6;

/** Shortest wait that is answered. */
export const MIN_WAIT_MS = 50;

/** Wait while too many sends are unsettled. Who is to ask again so soon is not woken: mostly it does so sooner, in place. */
export const UNSETTLED_WAIT_MS = 1_000;

/** Waiters that a budget keeps; more are told `queue-full` and keep no place. */
export const MAX_WAITERS = 1_000;

/** Of these places, as many stay free of the batch lane. */
export const INTERACTIVE_PLACES = 100;

/** Workflow ids are remembered that long, or the newest 7,500, whichever is less. */
export const MEMORY_MS = 72 * 3_600_000;
export const MAX_REMEMBERED = 7_500;

/** Jobs whose last turn's end is remembered. */
export const MAX_LAST_JOBS = 250;

/** Turns that are kept. Beyond them the oldest is dropped: its job may get a second message before its turn ends. */
export const MAX_TURNS = 300;

/** Where more turns are kept, each grant has the owner of one of them asked whether it still runs. */
export const TURNS_BEFORE_CHECKS = 100;

/** Sends kept in full for the audit after their slots have ended. */
export const AUDIT_LENGTH = 100;

/** An ask is too old that long after lease: start-to-close is lease + 15 s, and 10 s for the call itself. */
export const ASK_DEADLINE_AFTER_LEASE_MS = 25_000;

/** A lapsed waiter is woken after a minute, two, four and so on, up to that long. */
export const LONGEST_QUIET_MS = 15 * 60_000;

/** A waiter that is not invited and not heard of for that long is asked whether it is still there. */
export const SILENT_WAITER_MS = 15 * 60_000;

/** While interactive follow-ups overtake it, the batch lane has one grant of that many: no lane starves. */
export const BATCH_TURN_EVERY = 10;
