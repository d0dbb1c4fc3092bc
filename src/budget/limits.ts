/**
 * While an operator or a refusal pauses the project, the first in line asks again after this time at most, so that a lost
 * wake does not leave a slot idle for longer.
 */
export const RECHECK_MS = 60_000;

/**
 * How long everybody else waits before asking again. A wake usually comes first, and an ask costs a read and a dozen
 * events.
 */
export const RECHECK_BEHIND_MS = 10 * 60_000;

/** Time between the rechecks of two waiters, so that they do not all ask at once. */
export const SPREAD_MS = 200;

/**
 * How long before its end a slot is granted again; the send waits for the end. By then the wake, the read of the job and
 * the ask are over, so no slot time is lost to them. Two busy cores take up to 3 s to wake 60 follow-ups.
 */
export const GRANT_AHEAD_MS = 3_000;

/**
 * An invited waiter that does not ask within this time is skipped until it asks. This is shorter than
 * {@link GRANT_AHEAD_MS}, so that the next one can be invited before the slot of a dead one ends.
 */
export const INVITATION_GRACE_MS = 2_000;

/**
 * Sends that take longer than this are slow. Waiters do not ask in place until slow sends end, and none is invited in
 * the hope that they do.
 */
export const SLOW_SEND_MS = 2_000;

/**
 * On a busy machine, invited waiters take longer to ask, and get twice the mean time that they took, up to this. If
 * invitations lapsed before anybody can answer, the budget would wake ever more waiters, most of them in vain, and so
 * keep the machine busy: 10,000 follow-ups at once on two cores came down from 8 sends a second to 2.
 */
export const LONGEST_GRACE_MS = 30_000;

/**
 * The asks of a worker for one project go together, this far apart, or with the news that a send has ended if others
 * await it. A follow-up that waits only for sends in flight asks again from within its activity. If invited waiters take
 * longer than this to ask, or none was ever invited, twice as many are invited as may send at once: the second half is
 * granted in place sooner than it could be invited.
 */
export const ASKS_APART_MS = 250;

/**
 * What a worker tells the budget of one project shares calls, because each signal costs the budget a workflow task. The
 * first word goes out at once. Those of the next three seconds go out together, with the first ask if there is one.
 */
export const REPORTS_APART_MS = 3_000;

/** Weight of the latest answer in that mean, as in TCP's estimate of round trips (RFC 6298). */
export const LATEST_ANSWER_SHARE = 1 / 8;

/** How long a send is expected to take before any send was measured. For estimates only. */
export const SEND_ESTIMATE_MS = 1_000;

/** How long a free slot is expected to stay unused. For estimates only. */
export const REUSE_ESTIMATE_MS = 50;

/** Number of settled sends whose mean duration predicts the next one. */
export const ESTIMATED_FROM = 20;

/**
 * How much longer than its estimate a waiter sleeps. Its invitation wakes it in time, and an ask that comes too early costs
 * more than a wake.
 */
export const OVERSLEEP_MS = 1_000;

/**
 * Most sends that are granted but not settled. If outsiders have used up the hour, this limits the loss to 10 slots
 * instead of 100.
 */
export const MAX_UNSETTLED = 10;

/**
 * If the latest ten grants took longer than this, they say nothing about the next ten: nobody asked in between. A budget
 * whose machine is busy takes up to 25 s for ten (10,000 follow-ups at once in ten projects, on two cores).
 */
export const LONGEST_TEN_MS = 60_000;

/**
 * Time in which ten follow-ups of a budget that was silent are woken. More than ten at once would find the limit of
 * unsettled sends reached, and would have to ask twice.
 */
export const WAKE_TEN_MS = 1_000;

/**
 * After a second refusal within a window, sends come at least window / limit apart. Each further refusal makes that gap
 * longer by this factor, each send that the service takes makes it shorter, until it is so small a share that it goes.
 */
export const GAP_AFTER_REFUSAL = 1.25;
export const GAP_AFTER_SEND = 0.95;
export const SHORTEST_GAP_SHARE = 0.6;

/** Shortest wait that an answer gives. */
export const MIN_WAIT_MS = 50;

/**
 * Wait while too many sends are unsettled. A waiter that asks again so soon is not woken: it usually asks earlier, in
 * place.
 */
export const UNSETTLED_WAIT_MS = 1_000;

/** Most waiters that a budget keeps. Others are told `queue-full` and get no place. */
export const MAX_WAITERS = 1_000;

/** How many of these places the batch lane cannot take. */
export const INTERACTIVE_PLACES = 100;

/** How long workflow ids are remembered, unless there are more than {@link MAX_REMEMBERED} newer ones. */
export const MEMORY_MS = 72 * 3_600_000;
export const MAX_REMEMBERED = 7_500;

/** Number of jobs for which the end of the last turn is remembered. */
export const MAX_LAST_JOBS = 250;

/**
 * Most turns that are kept. If there are more, the oldest is dropped: its job may get a second message before its turn
 * ends.
 */
export const MAX_TURNS = 300;

/** If more turns are kept, each grant makes the budget ask the owner of one of them whether it still runs. */
export const TURNS_BEFORE_CHECKS = 100;

/** Number of sends that are kept in full for the audit after their slots have ended. */
export const AUDIT_LENGTH = 100;

/**
 * Most sends without an outcome that are kept in full after their time. The follow-up of such a send may have been kept
 * waiting by a busy machine, and can still say that it was never made.
 */
export const MAX_UNTOLD = 100;

/**
 * How long after its lease an ask counts as stale: 15 s, because start-to-close is lease + 15 s, and 10 s for the call
 * itself.
 */
export const ASK_DEADLINE_AFTER_LEASE_MS = 25_000;

/** A waiter that does not answer is woken again after one minute, two, four and so on. This is the longest interval. */
export const LONGEST_QUIET_MS = 15 * 60_000;

/** After this time without a word, a waiter that is not invited is asked whether it still runs. */
export const SILENT_WAITER_MS = 15 * 60_000;

/**
 * While interactive follow-ups overtake the batch lane, every tenth grant goes to that lane, so that it does not
 * starve.
 */
export const BATCH_TURN_EVERY = 10;
