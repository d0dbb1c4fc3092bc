import { describe, expect, it } from 'vitest';
import { iso } from '../../src/contract/durations.js';
import { Desk, followUp, HOUR, names, T0, testRules } from './support.js';

describe('a slot', () => {
  testRules(`
  - is held after "sent" for held [limit=1]
    ask a, ask b, wait 300ms, settle a sent, next -> held b
  - is held after "rejected" for held [limit=1]
    ask a, ask b, wait 300ms, settle a rejected, next -> held b
  - is held after "limited" for held [limit=1]
    ask a, ask b, wait 300ms, settle a limited, next -> held b
  - is held after "notSent" for 0s [limit=1]
    ask a, ask b, wait 300ms, settle a notSent, next -> 0s b
  - is held after "unknown" for over+held-300ms [limit=1]
    ask a, ask b, wait 300ms, settle a unknown, next -> over+held-300ms b
  - is held likewise without a word [limit=1]
    ask a, ask b, next -> over+held b
  - is not freed, and not used again, by a second word about the same send or one before
    ask a, settle a limited, wait 1m, ask a number=2, settle a unknown number=2, settle a notSent number=2,
    settle a limited number=1, slots -> 2, ask a reset -> known outcome=unknown
  - of a send that the budget did not grant is held from when its last byte may arrive
    ask a, settle stranger unknown, slot -> over-lease+held
  - is used once, whoever else says that it was not, twice or late
    ask a, settle a notSent run=another, settle a notSent number=2, wait over, settle a, settle a,
    settle a notSent, slots -> 1
  - is free again where its follow-up says after the lease that it sent nothing, as after an outage [limit=2]
    send b, ask a, wait over+1m, slots -> 2, settle a notSent, settle a notSent, slots -> held
  - is one of at most ten under way; one without an answer is so for its lease [limit=100]
    ask a*14, line -> a10 a11 a12 a13, settle a3, granted -> a10, next -> lease a11 a12 a13
  `);

  it('says for the last 100 sends who spent it, when, and what came of it', () => {
    const desk = new Desk({ limit: 200 }).play('ask open, ask free, settle free notSent, send a*98');
    const send = { sendNumber: 1, grantedAtMs: desk.nowMs };
    expect(desk.state.lastSends.slice(0, 3)).toEqual([
      { ...send, workflowId: followUp('open') },
      { ...send, workflowId: followUp('free'), settledAtMs: desk.nowMs, outcome: 'notSent' },
      { ...send, workflowId: followUp('a0'), settledAtMs: desk.nowMs, outcome: 'sent' },
    ]);
  });
});

describe('a clock', () => {
  testRules(`
  - that goes back lets nothing over the limit [limit=2]
    send a, ask b, clock -30m, settle b, ask c, next -> held c
  - of a follow-up lengthens no slot, and shortens it to its grant at most
    ask ahead, ask behind, wait 10s, settle ahead sent at=1h, settle behind sent at=-1h, slots -> held 10s+held
  - that steps ahead by less than the margin frees nothing within the window [limit=1]
    send a, ask b, wait 1h-1ms+margin, granted
  `);
});

describe('the line', () => {
  testRules(`
  - leaves a reserve to the interactive lane [limit=5 reserve=2]
    ask b*3 lane=batch -> granted, ask b3 lane=batch -> waiting, ask i*2 -> granted, ask i2 -> waiting
  - reserves its share of a lower limit of the worker’s configuration [limit=10 reserve=5]
    ask b*2 lane=batch max=4 -> granted, ask b2 lane=batch max=4 -> waiting, ask i*2 max=4 -> granted,
    ask i2 max=4 -> waiting
  - keeps no follow-up behind those of its job that a reserve holds, however many [limit=2 reserve=2]
    ask b*10@x lane=batch, ask i@x -> granted
  - has one place for a job and lane: the others wait for their job [limit=0]
    ask a1@x, ask a2@x -> waiting job-busy position=0, ask b1@x lane=batch -> waiting slot position=2,
    ask c -> waiting slot position=2
  - has ten places for a job and 1,000 in all; who has none asks again, but not soon [limit=0]
    ask a*10@x -> waiting, ask late@x -> full job-busy retryMs=1m, ask b*990 -> waiting,
    ask c -> full queue-full retryMs=15m
  - keeps every tenth place, of a job and in all, from the batch lane [limit=0 places=20/10]
    ask a*9@x lane=batch -> waiting, ask a9@x lane=batch -> full, ask b@x -> waiting, ask c@x -> full,
    ask d*8 lane=batch -> waiting, ask d8 lane=batch -> full, ask e -> waiting, ask f -> waiting, ask g -> full
  - grants what can be sent beside a free slot, however many stand in it who cannot [places=10/10]
    send owner@x, ask waits*10@x, ask sendable -> granted
  - always has a place for whoever has the turn of the job [limit=1 counts]
    book runs owner@x, ask a*10@x, ask owner@x number=2 -> waiting slot position=1
  - always has its place for whoever had one [limit=1 places=3/10]
    ask a, ask b*3, settle a rejected, ask c -> full, ask a number=2 -> waiting position=1
  - says when a slot is expected, counting those before it [limit=3 reserve=1]
    send a0, wait 1m, send a1, wait 1m, send a2, wait 1m, ask i0 -> waiting position=1 expectedAtMs=held,
    ask b lane=batch -> waiting position=2 expectedAtMs=2m+held, ask i1, ask i2,
    ask i3 -> waiting expectedAtMs=none, ask busy@a0 -> waiting expectedAtMs=none
  - expects no slot of a refused message where the service accepts fewer than the limit [limit=100]
    ask r number=1, settle r payment number=1, resume, ask r number=2, settle r payment number=2, resume,
    ask r number=3, settle r payment number=3, resume, end r, ask s, settle s rejected, end s, wait 40m, told,
    send a*20, ask t, settle t limited, end t, wait 61s, ask u, settle u limited, end u, wait 61s, ask v,
    settle v rejected, end v, eta c
  `);

  it('gives every tenth grant to the batch lane while interactive ones keep coming', () => {
    const desk = new Desk({ limit: 0 }).play('ask b*3 lane=batch, ask i*30, limit 100');
    const order: string[] = [];
    for (let granted = desk.granted(); order.length < 30; granted = desk.granted()) {
      order.push(...granted);
      for (const name of granted) desk.settle(name);
    }
    expect(order.flatMap((name, index) => (name.startsWith('b') ? [index] : []))).toEqual([9, 19, 29]);
  });

  it('reserves its share of a lower limit of the service', () => {
    const desk = new Desk({ limit: 10, reserve: 5 });
    desk.state.learned = { limit: 4, step: 1, refusals: 1, growAtMs: T0 + HOUR };
    desk.play('ask b*2 lane=batch -> granted, ask b2 lane=batch -> waiting, ask i*2 -> granted, ask i2 -> waiting');
  });

  it('takes message, lane and lease from the latest ask of a follow-up', () => {
    const latest = 'ask a run=new number=3 tag=another lease=7ms drain=8ms lane=interactive';
    const { state } = new Desk({ limit: 0 }).play(`ask a lane=batch, ${latest}`);
    const change = { runId: 'new', sendNumber: 3, messageTag: 'another', leaseMs: 7, drainMs: 8, lane: 'interactive' };
    expect(state.waiters).toMatchObject([{ ...change, arrival: 1 }]);
  });

  it('empties at the next free slot if all in it but one were terminated behind a pause: they take none', () => {
    const desk = new Desk({ limit: 100 }).play('pause, ask a*150, ask alive, told, resume');
    for (let messages = desk.told(); messages.length > 0; messages = desk.told()) {
      desk.miss(messages.filter(({ workflowId }) => workflowId !== followUp('alive')));
    }
    expect(desk.state).toMatchObject({ waiters: [], spent: [], grants: [{ workflowId: followUp('alive') }] });
  });

  it('tells the first twenty, once, when their reason to wait changes', () => {
    const told = new Desk({ limit: 0 }).play('ask a*30, pause, wait 1h').told();
    expect(told.map(({ workflowId }) => workflowId)).toEqual(names('a', 20).map((name) => followUp(name)));
    expect(told[0]?.answer).toMatchObject({ kind: 'waiting', reason: 'paused', runId: 'run-of-a0', sendNumber: 1 });
  });
});

describe('an operator', () => {
  testRules(`
  - lowers the limit: what is used drains [limit=3]
    send a0, wait 1m, send a1, wait 1m, send a2, wait 1m, ask b, limit 1, next -> held-1m b
  - raises the limit up to what the latest worker allows [limit=1]
    ask a*6 max=4, limit 1000, granted -> a1 a2 a3, ask b max=5, granted -> a4, bound -> 5
  - changes window and reserve alone [limit=2]
    send a, limit - 1m 1, ask b lane=batch, next -> 1m+margin b
  - pauses until a time, or until he resumes
    pause 1h, ask a -> waiting paused position=1, next -> 1h a, pause, ask b -> waiting paused, wait 720h,
    granted, resume, granted -> b
  - waits for nothing if nobody waits [limit=1]
    send a, change -> none
  - waits for nothing if no time changes anything [limit=0]
    ask a, change -> none
  - is told when a pause of a set time is over, also if nobody waits
    pause 1h, change -> 1h, wait 1h, change -> none, pause, change -> none
  `);

  it('leaves a note for people', () => {
    const desk = new Desk();
    desk.pause({ untilMs: T0 + HOUR, note: 'a release' });
    const pause = { by: 'operator', until: iso(T0 + HOUR), note: 'a release' };
    expect(desk.ask('a')).toMatchObject({ pause });
    expect(desk.play('resume').budget.pauseOf(desk.nowMs)).toBeUndefined();
  });
});

describe('a longer window', () => {
  testRules(`
  - holds slots again that a shorter one has freed [limit=2]
    send a, send b, limit - 1m, wait 2m, slots ->, limit - 1h, slots -> held held
  - holds all of them, whatever the limit was (now 10) [limit=100]
    send x*100, end x*100, wait held, send y*100, end y*100, wait held, send z*100, end z*100, wait held,
    limit 10 4h, slots -> 300, ask a -> waiting
  - holds that of a send without an end [limit=1]
    ask a, wait 2h, limit - 3h, slots -> over+3h+margin
  - holds that of a send that was heard of late [windowMs=60000]
    ask a, wait over+5m, settle a, limit - 1h, slots -> over+held
  - holds one for each message of a follow-up [limit=10 windowMs=600000]
    wait 3h, ask a, settle a limited number=1, ask a number=2, then -> a, settle a limited number=2,
    ask a number=3, then -> a, settle a limited number=3, ask a number=4, then -> a, settle a limited number=4,
    ask a number=5, then -> a, settle a limited number=5, end a, wait 12m, slots ->, limit - 1h, slots -> 5
  - holds no more than any limit may be [windowMs=60000]
    ask a0 max=3, settle a0, wait 2m, ask a1 max=3, settle a1, wait 2m, ask a2 max=3, settle a2, wait 2m,
    ask a3 max=3, settle a3, wait 2m, ask a4 max=3, settle a4, wait 2m, limit - 1h, slots -> 3
  - holds no send that was not made, and an unknown one from its last byte [windowMs=60000]
    ask a, settle a notSent, ask b, settle b unknown, wait over+2m, limit - 1h, slots -> over+held
  - holds a send once
    send a, limit - 2h, slots -> 1
  - is counted where it reaches back before the memory
    wait 1h, limit - 1h+1ms, counts -> true
  - is not counted where it does not
    wait 2h, limit - 1h+1ms, counts -> false, limit - 1m, counts -> false
  `);
});
