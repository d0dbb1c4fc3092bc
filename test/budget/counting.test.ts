import { describe, expect, it } from 'vitest';
import { slotEnds } from '../../src/budget/slots.js';
import { Desk, followUp, HELD, HOUR, listed, MARGIN, MINUTE, testRules } from './rules.js';

describe('a budget that counts', () => {
  testRules(`
  - grants nothing, and says why [counts]
    ask a -> waiting counting position=1, wait 24h, granted ->
  - books each send of the list, then grants the rest [counts limit=4]
    ask b*5, wait 1m, book a1 a2 +1, granted -> b0, report b0, next -> held b1 b2 b3 b4
  - knows those whom it books, once each, so that their ids are not sent again [counts]
    book a, ask a reset -> earlierSend outcome=unknown, used -> 1
  - does not let a run that was reset send again, whatever number its send has [counts]
    book runs a, ask a reset number=2 -> earlierSend outcome=unknown
  - books a send that it did not grant when it is reported, from its response, once [counts]
    wait 1s, report a sent at=-300ms, report a sent at=-300ms, report b notSent, book, slots -> 700ms+held,
    ask c@a -> waiting job-busy, ask d@b -> granted, ask a reset -> earlierSend outcome=sent
  - takes no send of before a reset for the last one of its job
    send a@x, end a, wait 1h, forget nothing, counts, book, ask a reset -> earlierSend outcome=sent verdict=superseded
  - does not take an old send that is reported late for the last one of its job
    wait 1h, send new@x, end new, report old@x sent at=-1h, ask old@x reset -> earlierSend verdict=superseded,
    ask new reset -> earlierSend verdict=current
  - does not book what it remembers as "sent" or "rejected"
    ask a*2, report a0 sent, report a1 rejected, send c, counts, book a*2 runs c, used -> 3
  - books what it remembers as "limited", "notSent" or "unknown": the next send may be forgotten
    ask a*3, report a0 notSent, report a1 unknown, report a2 limited, wait over+1m, counts, book a*3,
    slots -> held over+held over+1m+held over+1m+held over+1m+held, ask a0 reset -> earlierSend outcome=unknown,
    ask a1 reset -> earlierSend outcome=unknown, ask a2 reset -> earlierSend outcome=unknown
  - books nothing beside a grant that may be under way, but beside one that is over
    ask a, counts, book a, used -> 1, clock 30m, counts, book a, slots -> held 30m+held
  - replies to each run that may have sent that it may have sent more often, not only the first [counts]
    book runs a, ask a reset run=second -> earlierSend sendNumber=1,
    ask a reset run=third number=2 -> earlierSend sendNumber=2, ask a number=3 -> granted runId=third
  - counts a grant of before a reset, also if its end or its refusal is reported [limit=2]
    ask a drain=2m, ask c drain=2m, wait lease, counts, book runs a c, end a, report c limited, ask b -> waiting,
    ask a reset number=2 -> earlierSend outcome=unknown, ask c reset number=2 -> earlierSend outcome=unknown
  - wakes everybody whom it takes out of the line: a key may have been used again [counts]
    ask a -> waiting counting, keep, book a, signals -> a:wake
  - takes no place from a run that was started after a wake was on its way to the one before [limit=0]
    wake a, keep, ask a run=second, miss, limit 1, granted -> a
  - gives a job to whoever runs, and one that is closed only for the settle time [counts]
    book old@x closed runs new@x, ask behind-new@x, ask behind-closed@closed,
    ask closed reset -> earlierSend verdict=current, end closed until=settle, next -> settle behind-closed,
    end new@x last, granted -> behind-new
  - gives it also to one that runs whose send was reported, before a grant of a time that a reset brought back
    ask old@x, report new@x, book runs new@x, report old notSent, ask next@x -> waiting job-busy
  - does not guess which of two sends to a job was the last: either may have been reset [counts]
    report heard@y, book old@x closed@y runs new@x, ask old@x reset -> earlierSend verdict=superseded,
    ask new@x reset -> earlierSend verdict=superseded, ask heard@y reset -> earlierSend verdict=superseded,
    ask closed@y reset -> earlierSend verdict=superseded, ask next@y -> waiting job-busy, wait settle, granted ->
  - keeps how a job looked at the end of the turn before
    send a@x, end a last, book b@x, wait settle, ask c@x -> granted last
  - takes the send for made for which a follow-up stood in line
    ask a, report a limited, ask a number=2, book runs a, ask a -> earlierSend sendNumber=2 outcome=unknown
  - gives the turn of one that has ended an end, and does not take it back if the end was reported
    send c@y, end c, book c@y, ask d@y -> granted, send a@x, ask b@x, forget, book a@x, next -> settle b
  - finds no evidence for another message of an id that is used again
    book a, ask a tag=other -> earlierSend verdict=superseded
  `);

  it('lists what it books as of now, and uses its slot until nothing of it can still arrive', () => {
    const desk = new Desk({ counts: true });
    desk.budget.book(desk.nowMs, listed(['a']), { drainMs: MINUTE });
    const booked = { grantedAtMs: desk.nowMs };
    expect(desk.state.lastSends).toMatchObject([{ workflowId: followUp('a'), ...booked }]);
    expect(slotEnds(desk.state)[0]).toBeGreaterThanOrEqual(desk.nowMs + MINUTE + HOUR);
  });

  it('uses the slot of a send whose time is known until its own window is over, with lease and drain', () => {
    const desk = new Desk({ counts: true });
    const sentAtMs = desk.nowMs - 20 * MINUTE;
    const send = { workflowId: followUp('a'), isRunning: true, sentAtMs };
    desk.budget.book(desk.nowMs, [send], { leaseMs: 2 * MINUTE, drainMs: MINUTE });
    expect(desk.state.lastSends).toMatchObject([{ grantedAtMs: sentAtMs }]);
    expect(slotEnds(desk.state)).toEqual([sentAtMs + 3 * MINUTE + HELD + MARGIN]);
  });

  it('uses no slot for agents at work on messages of yesterday, and keeps their jobs for them', () => {
    const desk = new Desk({ counts: true, limit: 3 });
    const sentAtMs = desk.nowMs - 20 * HOUR;
    const atWork = ['a', 'b', 'c', 'd'].map((name) => ({ workflowId: followUp(name), isRunning: true, sentAtMs }));
    desk.budget.book(desk.nowMs, atWork, { leaseMs: MINUTE, drainMs: MINUTE });
    expect(desk.ask('next-of-a', { workflowId: followUp('next', 'a') })).toMatchObject({ reason: 'job-busy' });
    expect(['x', 'y', 'z'].map((name) => desk.ask(name).kind)).toEqual(['granted', 'granted', 'granted']);
    expect(desk.ask('a', { mayHaveSent: true, runId: 'reset' })).toMatchObject({
      kind: 'earlierSend',
      outcome: 'unknown',
    });
  });

  it('uses a slot for a message that waits to be sent again, and leaves it its place', () => {
    const desk = new Desk({ counts: true, limit: 2 });
    const send = { workflowId: followUp('a'), isRunning: true, isWaiting: true, sentAtMs: desk.nowMs - MINUTE };
    desk.budget.book(desk.nowMs, [send]);
    expect(desk.ask('a', { sendNumber: 2 })).toMatchObject({ kind: 'granted' });
    expect(desk.ask('b')).toMatchObject({ kind: 'waiting', reason: 'slot' });
  });
});
