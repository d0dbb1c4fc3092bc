import { describe } from 'vitest';
import { testRules } from './support.js';

describe('an ask that comes again', () => {
  testRules(`
  - gets the same grant, with its time and lease, and a lease that has passed once the send is over
    ask a, wait 1s, ask a -> granted grantedAtMs=0s leaseMs=lease overAtMs=over, wait over,
    ask a -> granted leaseMs=1ms, used -> 1
  - learns what is known of the send, since its response and not its grant
    ask a, wait 300ms, report a,
    ask a -> earlierSend sendNumber=1 outcome=sent verdict=current grantedAtMs=0s outcomeAtMs=300ms overAtMs=over
  - gets nothing with another message, or after the end of its run
    send a, ask a tag=another -> otherMessage, end a, ask a -> ended
  `);
});

describe('a run that replaces another', () => {
  testRules(`
  - learns who was granted the send, and whether the budget remembers all since it started
    ask a, ask a reset -> earlierSend runId=new grantedTo= outcome=null,
    ask a later -> earlierSend grantedTo=run-of-a, used -> 1
  - is named in the replies "waiting" and "full" [limit=0 capacity=1/10]
    ask a reset later number=4 -> waiting slot runId=new sendNumber=4,
    ask b reset later number=4 -> full queue-full runId=new sendNumber=4
  - was never granted anything if it is not in the memory, but may have been if it began before
    ask a reset later number=4 -> granted runId=new, ask b reset -> earlierSend grantedTo= outcome=unknown verdict=forgotten
  - takes over the place in line, with the grant that follows, whatever the run before says late [limit=0]
    ask a later, ask a reset, end a run=run-of-a, limit 1, signals -> a:granted, ask a -> granted runId=new
  - keeps that place if a signal to the run before finds nobody [limit=0]
    ask a later, pause, keep, ask a reset, miss, line -> a
  - is granted the next send if the one before was never used [limit=1]
    ask a, ask a reset -> earlierSend outcome=null, report a notSent run=run-of-a, ask a -> earlierSend outcome=notSent,
    ask a number=2 -> granted runId=new
  - takes the turn of its job again while nobody else was granted it
    send a@x, end a, ask a reset -> earlierSend outcome=sent verdict=current, ask b@x -> waiting job-busy
  - learns that the turn is of another, and leaves it there
    send a@x, ask b@x, end a, granted -> b, ask a reset -> earlierSend outcome=sent verdict=superseded, end a,
    ask c@x -> waiting job-busy, keep, end b, granted -> c
  - takes no turn if its message was not delivered, and has none for sure while the budget counts [counts]
    report sent, report limited limited, ask sent reset -> earlierSend verdict=superseded, book, resume, ask limited reset,
    ask other@limited -> granted
  - learns of the later send if an earlier run reports again that its own was refused
    ask a run=first, report a limited retry=1s run=first number=1, wait 2s, ask a number=2, report a, wait 1m,
    report a limited retry=1s run=first number=1, ask a reset run=third number=2 -> earlierSend sendNumber=2
  - learns of it also from a budget that has counted since [counts]
    book runs a, report a limited retry=1s run=first number=1,
    ask a reset run=third number=2 -> earlierSend sendNumber=2
  `);
});

describe('the turn of a job', () => {
  testRules(`
  - that ends in doubt is kept for as long as the end says, but for four hours at most
    send a@x, ask b@x, send c@y, ask d@y, end a until=5m, end c until=20h, next -> 5m b, next -> 4h-5m d
  - is kept so also if a message does not find it
    send a@x, ask b@x, end a until=30m, keep, gone a, next -> 30m b
  - ends with how the job looked, and each grant after it says so
    send a@x, end a last, ask b@x -> granted last, end b, ask c@x -> granted last
  - is free after a send that did not arrive, also if the grant is over by then
    ask a@x, ask b@y, ask c@z, ask a2@x, ask b2@y, ask c2@z, wait over, report a notSent, report b rejected,
    report c limited, granted -> a2 b2, end a2, end b2, resume, granted -> c2
  - is kept until no byte arrives and the settle time is over if another run ends, or none is found
    ask a@x, ask b@x, ask c@x, ask d@y, ask e@y, end a run=another, gone d, next -> over+settle b e,
    end b run=another last, granted -> c
  - is not ended by a late report of a run that was reset since
    send a@x, ask b@x, ask a reset, end a run=run-of-a last, granted ->, end a last, granted -> b
  - is not taken by a follow-up whose send the budget did not grant
    send a@x, ask b@x, report stranger@x, end stranger@x, granted ->
  - is of no other job, whatever its id looks like
    send a@2, send b@__proto__, send c@constructor, ask d@__proto__ -> waiting job-busy, ask e@toString -> granted
  `);
});

describe('a follow-up that is closed', () => {
  testRules(`
  - keeps the slot of a grant that was signalled and then was the reply to an ask [limit=1]
    ask a, ask b, report a notSent, keep, ask b -> granted, miss, used -> 1
  - leaves its place in line, and a grant that it never used, with its end [limit=1]
    ask a, ask b, ask c, end b, end a, granted -> c
  - leaves no place that an ask takes again after its send was over, but keeps another [counts]
    ask sent, ask ended, ask earlier, ask otherRun, ask later number=2, report sent, end ended,
    report earlier limited number=3, report later limited number=1, report otherRun limited run=old,
    line -> otherRun later
  - leaves its job to those who wait, a settle time after it is missed
    send a@x, ask b@x, wait lease+over, keep, miss, next -> settle b
  - is asked for a sign of life while others wait for its job, at once and every ten minutes
    ask a, ask unasked, ask b@a, signals -> a:wake, wait 4m, ask c@a, wait 4m, signals ->, ask d@a, wait 4m, signals -> a:wake,
    change -> 10m
  `);
});
