import { describe, expect, it } from 'vitest';
import { iso } from '../../src/common/index.js';
import { Desk, followUp, HOUR, names, T0, testRules } from './rules.js';

describe('a slot', () => {
  testRules(`
  - is in use for a window from its response, without one from when the last byte may arrive; "notSent" frees it
    ask s*6, wait 300ms, report s0 sent, report s1 rejected, report s2 limited, report s3 notSent, report s4 unknown,
    slots -> 300ms+held 300ms+held 300ms+held over+held over+held
  - is granted to the next when it is free [limit=1]
    ask a, ask b, wait 300ms, report a, next -> held b
  - is not freed, and not used again, by a second report on the same send or one before
    ask a, report a limited, wait 1m, ask a number=2, report a unknown number=2, report a notSent number=2,
    report a limited number=1, used -> 2, ask a reset -> earlierSend outcome=unknown
  - of a send that the budget did not grant is held from when its last byte may arrive
    ask a, report stranger unknown, slots -> over-lease+held over+held
  - is used once, whoever else says that it was not, twice or late
    ask a, report a notSent run=another, report a notSent number=2, wait over, report a, report a,
    report a notSent, used -> 1
  - is free again if its follow-up reports after the lease that it sent nothing, as after an outage [limit=2]
    send b, ask a, wait over+1m, used -> 2, report a notSent, report a notSent, slots -> held
  - is one of at most ten under way; one without a response is so for its lease [limit=100]
    ask a*14, line -> a10 a11 a12 a13, report a3, granted -> a10, next -> lease a11 a12 a13
  `);
});

describe('a clock', () => {
  testRules(`
  - that goes back lets nothing over the limit [limit=2]
    send a, ask b, clock -30m, report b, ask c, next -> held c
  - of a follow-up lengthens no slot, and shortens it to its grant at most
    ask ahead, ask behind, wait 10s, report ahead sent at=1h, report behind sent at=-1h, slots -> held 10s+held
  - that steps ahead by less than the margin frees nothing within the window [limit=1]
    send a, ask b, wait 1h-1ms+margin, granted ->
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
  - gives every tenth grant to the batch lane while interactive ones keep coming [limit=0]
    ask b*3 lane=batch, ask i*30, limit 100, granted -> i*9 b0, report i*9, report b0,
    granted -> i9 i10 i11 i12 i13 i14 i15 i16 i17 b1
  - takes lane, lease and send from the latest ask of a follow-up [limit=0 reserve=1]
    ask a lane=batch, ask a run=new number=3 lease=7ms drain=8ms lane=interactive, limit 1,
    ask a -> granted runId=new sendNumber=3 leaseMs=7ms overAtMs=15ms
  - has one place for a job and lane: the others wait for their job [limit=0]
    ask a1@x, ask a2@x -> waiting job-busy position=0, ask b1@x lane=batch -> waiting slot position=2,
    ask c -> waiting slot position=2
  - has bounded places, every tenth only for the interactive lane; who has none asks again [limit=0 capacity=20/10]
    ask a*10@x lane=batch -> waiting, ask a10@x lane=batch -> full job-busy retryMs=1m, ask b@x -> waiting,
    ask d*7 lane=batch -> waiting, ask d7 lane=batch -> full, ask e -> waiting,
    ask f -> waiting, ask g -> full queue-full retryMs=15m
  - grants what can be sent beside a free slot, however many stand in it who cannot [places=10/10]
    send owner@x, ask waits*10@x, ask sendable -> granted
  - always has a place for whoever has the turn of the job [limit=1 counts]
    book runs owner@x, ask a*10@x, ask owner@x number=2 -> waiting slot position=1
  - always has its place for whoever had one [limit=1 capacity=3/10]
    ask a, ask b*3 later, report a rejected, ask c -> full, ask a number=2 -> waiting position=1
  - says when a slot is expected, counting those before it [limit=3 reserve=1]
    send a0, wait 1m, send a1, wait 1m, send a2, wait 1m, ask i0 -> waiting position=1 expectedAtMs=held,
    ask b lane=batch -> waiting position=2 expectedAtMs=2m+held, ask i1, ask i2,
    ask i3 -> waiting expectedAtMs=none, ask busy@a0 -> waiting expectedAtMs=none
  `);

  it('empties at the next free slot if all in it but one were terminated behind a pause: they take none', () => {
    const desk = new Desk({ limit: 100 }).play('pause, ask a*30, ask alive, keep, resume');
    for (let messages = desk.signals(); messages.length > 0; messages = desk.signals()) {
      desk.miss(messages.filter(({ workflowId }) => workflowId !== followUp('alive')));
    }
    expect(desk.state).toMatchObject({ waiters: [], spent: [], grants: [{ workflowId: followUp('alive') }] });
  });

  it('signals the first twenty, once, when their reason to wait changes', () => {
    const signals = new Desk({ limit: 0 }).play('ask a*30, pause, wait 1h').signals();
    expect(signals.map(({ workflowId }) => workflowId)).toEqual(names('a', 20).map((name) => followUp(name)));
    expect(signals[0]?.reply).toMatchObject({ kind: 'waiting', reason: 'paused', runId: 'run-of-a0', sendNumber: 1 });
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
  - pauses until a time, which the budget notes although nobody waits, or until he resumes
    pause 1h, change -> 1h, ask a -> waiting paused position=1, next -> 1h a, pause, change -> none,
    ask b -> waiting paused, wait 720h, granted ->, resume, granted -> b
  - starts no timer if nobody waits, or if no time changes anything [limit=1]
    send a, change -> none, limit 0 1s, wait 1h, ask b, change -> none
  `);

  it('leaves a note for people', () => {
    const desk = new Desk();
    desk.pause({ untilMs: T0 + HOUR, note: 'a release' });
    expect(desk.ask('a')).toMatchObject({ pause: { by: 'operator', until: iso(T0 + HOUR), note: 'a release' } });
  });
});

describe('a longer window', () => {
  testRules(`
  - holds all slots again that a shorter one has freed, whatever the limit was (now 1), and those in use once [limit=2]
    send x*2, end x*2, limit - 1m, wait 2m, slots ->, send y*2, end y*2, limit 1 1h,
    slots -> held held 2m+held 2m+held
  - uses that of a send that was reported late, or never, from its last byte [windowMs=60000]
    ask a, ask b, ask c, report c notSent, wait over+5m, report a, slots ->, limit - 1h, slots -> over+held over+held
  - holds no more than any limit may be [windowMs=60000]
    ask a0 max=3, report a0, wait 2m, ask a1 max=3, report a1, wait 2m, ask a2 max=3, report a2, wait 2m,
    ask a3 max=3, report a3, wait 2m, ask a4 max=3, report a4, wait 2m, limit - 1h, used -> 3
  - is counted only if it reaches back before the memory
    wait 2h, limit - 1h+1ms, counting -> false, limit - 1m, counting -> false, limit - 2h+1ms, counting -> true
  `);
});
