import { describe, expect, it } from 'vitest';
import { Desk, followUp, MINUTE, T0, testRules } from './support.js';

describe('an ask that comes again', () => {
  testRules(`
  - gets the same grant, with its time and lease, and a lease that has passed once the send is over
    ask a, wait 1s, ask a -> granted grantedAtMs=0s leaseMs=lease overAtMs=over, wait over,
    ask a -> granted leaseMs=1ms, slots -> 1
  - gets what is known of the send, since its answer and not its grant
    ask a, wait 300ms, settle a,
    ask a -> known grantedTo=run-of-a sendNumber=1 outcome=sent isLatest=true grantedAtMs=0s outcomeAtMs=300ms overAtMs=over isSameMessage=true remembersAll=false
  - gets nothing with another message, or after the end of its run
    send a, ask a tag=another -> otherMessage, end a, ask a -> ended
  `);
});

describe('a run that replaces another', () => {
  testRules(`
  - is told who was granted the send, and whether the budget remembers all since it started
    ask a, ask a reset -> known runId=new grantedTo=run-of-a outcome=null remembersAll=false,
    ask a later -> known remembersAll=true, slots -> 1
  - is named in the answer "waiting" [limit=0]
    ask a reset later number=4 -> waiting slot runId=new sendNumber=4
  - is named in the answer "full" [limit=0 places=0/10]
    ask a reset later number=4 -> full queue-full runId=new sendNumber=4
  - was never granted anything if it is not in the memory
    ask a reset later number=4 -> granted runId=new
  - may have been if it began before
    ask a reset -> known grantedTo= outcome=unknown isLatest=false
  - takes over the place in line, with the grant that follows [limit=0]
    ask a later, ask a reset, limit 1, told -> a:granted, ask a -> granted runId=new
  - keeps that place where the run before says late that it has ended [limit=0]
    ask a later, ask a reset, end a run=run-of-a, line -> a
  - or where a message to it finds nobody [limit=0]
    ask a later, pause, keep, ask a reset, miss, line -> a
  - is granted the next send where the one before was never used [limit=1]
    ask a, ask a reset -> known outcome=null, settle a notSent run=run-of-a, ask a -> known outcome=notSent,
    ask a number=2 -> granted runId=new
  - takes the turn of its job again while nobody else was granted it
    send a@x, end a, ask a reset -> known outcome=sent isLatest=true, ask b@x -> waiting job-busy
  - hears that the turn is of another, and leaves it there
    send a@x, ask b@x, end a, granted -> b, ask a reset -> known outcome=sent isLatest=false, end a,
    ask c@x -> waiting job-busy, told, end b, granted -> c
  - takes no turn where its message was not delivered, and has none for sure while the budget counts [counts]
    settle sent, settle limited limited, ask sent reset -> known isLatest=false, book, resume, ask limited reset,
    ask other@limited -> granted
  - hears of the later send where an earlier run tells again that its own was refused
    ask a run=first, settle a limited retry=1s run=first number=1, wait 2s, ask a number=2, settle a, wait 1m,
    settle a limited retry=1s run=first number=1, ask a reset run=third number=2 -> known sendNumber=2
  - hears of it also where it was another run’s
    ask a run=first, settle a limited retry=1s run=first number=1, wait 2s, ask a reset run=second number=2,
    settle a, wait 1m, settle a limited retry=1s run=first number=1, ask a run=third -> known sendNumber=2
  - hears of it also from a budget that has counted since [counts]
    book runs a, settle a limited retry=1s run=first number=1,
    ask a reset run=third number=2 -> known sendNumber=2
  - hears of an unknown one where the budget has forgotten both
    ask a run=first, settle a limited retry=1s run=first number=1, wait 2s, ask a number=2, settle a, wait 1m,
    forget, settle a limited retry=1s run=first number=1, ask a reset run=third -> known grantedTo=
  `);
});

describe('the turn of a job', () => {
  testRules(`
  - that ends in doubt is kept for as long as the end says
    send a@x, ask b@x, end a until=5m, next -> 5m b
  - is kept so also if a message does not find it
    send a@x, ask b@x, end a until=30m, told, gone a, next -> 30m b
  - is kept for four hours at most, whatever a signal says
    send a@x, ask b@x, end a until=20h, next -> 4h b
  - ends with how the job looked, and each grant after it says so
    send a@x, end a last, ask b@x -> granted last, end b, ask c@x -> granted last
  - is free after "notSent", also if the grant is over by then
    ask a@x, ask b@x, wait over, settle a notSent, then -> b
  - is free after "limited", also if the grant is over by then
    ask a@x, ask b@x, wait over, settle a limited, then -> b
  - is free after "rejected", also if the grant is over by then
    ask a@x, ask b@x, wait over, settle a rejected, then -> b
  - is kept until no byte arrives and the settle time is over where another run ends
    ask a@x, ask b@x, ask c@x, end a run=another, next -> over+settle b, end b run=another last, granted -> c
  - or where its owner is gone without an answer
    ask a@x, ask b@x, gone a, next -> over+settle b
  - is not ended by a late word of a run that was reset since
    send a@x, ask b@x, ask a reset, end a run=run-of-a last, granted, end a last, granted -> b
  - is not taken by a follow-up whose send the budget did not grant
    send a@x, ask b@x, settle stranger@x, end stranger@x, granted
  `);

  it('is of no other job, whatever its id looks like, and keeps its order', () => {
    const desk = new Desk();
    const jobs = ['2', '1', '__proto__', 'constructor', '0', 'toString'];
    for (const job of jobs) desk.send(`to-${job}`, { job });
    desk.rebuild();
    const owners = Object.values(desk.state.turns).map(({ owner }) => owner);
    expect(owners).toEqual(jobs.map((job) => followUp(`to-${job}`, job)));
    for (const job of jobs) expect(desk.ask(`second-to-${job}`, { job })).toMatchObject({ reason: 'job-busy' });
  });
});

describe('a follow-up that is gone', () => {
  testRules(`
  - keeps the slot of a grant that was pushed and then answered an ask [limit=1]
    ask a, ask b, settle a notSent, keep, ask b -> granted, miss, slots -> 1
  - leaves its place in line, and a grant that it never used, with its end [limit=1]
    ask a, ask b, ask c, end b, end a, granted -> c
  - leaves no place that an ask takes again after its send was over, but keeps another [counts]
    ask sent, ask ended, ask earlier, ask otherRun, ask later number=2, settle sent, end ended,
    settle earlier limited number=3, settle later limited number=1, settle otherRun limited run=old,
    line -> otherRun later
  - leaves its job to those who wait, a settle time after it is missed
    send a@x, ask b@x, wait lease+over, keep, miss, next -> settle b
  `);

  it('is asked for a sign of life while others wait for its job, at once and every ten minutes', () => {
    const desk = new Desk().play('ask a, ask unasked');
    const signs = [0, 1, 2, 3, 4].flatMap((index) => {
      desk.play(`ask b${index}@a, wait 4m`);
      return desk.told().map((message) => [index, message]);
    });
    const sign = { workflowId: followUp('a') };
    expect(signs).toEqual([
      [0, sign],
      [2, sign],
    ]);
    expect(desk.budget.nextChangeMs(desk.nowMs)).toBe(T0 + 22 * MINUTE);
  });
});
