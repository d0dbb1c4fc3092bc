import { describe } from 'vitest';
import { testRules } from './rules.js';

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
