import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE, SECOND } from '../support/times.js';
import { full, granted, noReply, notSent, Scene, useVirtualTime, waiting, waitingToWatch, working } from './support.js';

useVirtualTime();

describe('a signal of the budget', () => {
  it('grants a slot although a reason to wait comes after it', async () => {
    const scene = new Scene({ asks: [waiting()] });
    await scene.advance();
    scene.receive(granted());
    scene.receive(waiting());
    await scene.advance();
    expect(scene.sent).toHaveLength(1);
  });

  it('gives no place in line after the reply that the line is full', async () => {
    const scene = new Scene({ asks: [full(), granted()] });
    await scene.advance(SECOND);
    scene.receive(waiting());
    await scene.advance(15 * MINUTE);
    expect(scene.sent).toMatchObject([{ afterMs: 15 * MINUTE }]);
  });

  it('grants nothing if it is about an earlier send', async () => {
    const scene = new Scene({ asks: [granted(), waiting()], sends: [notSent] });
    await scene.advance(2 * SECOND);
    scene.receive(granted());
    scene.receive(granted({ runId: 'earlier' }));
    await scene.advance(MINUTE);
    expect(scene.calls).toEqual(['ask 1', 'send 1', 'report 1 notSent', 'ask 2']);
  });

  it('grants nothing if it is about the send during which it comes', async () => {
    const scene = new Scene({ asks: [granted(), waiting()], sends: [{ ...notSent, afterMs: SECOND }] });
    await scene.advance(SECOND / 2);
    scene.receive(granted({ runId: 'earlier' }));
    await scene.advance(MINUTE);
    expect(scene.calls).toEqual(['ask 1', 'send 1', 'report 1 notSent', 'ask 2']);
  });

  it('grants a send after a late grant of the send before', async () => {
    const scene = new Scene({ asks: [granted(), waiting()], sends: [notSent, {}] });
    await scene.advance(2 * SECOND);
    scene.receive(granted());
    await scene.advance(MINUTE);
    scene.receive(granted({ sendNumber: 2 }));
    await scene.advance();
    expect(scene.sent.map(({ request }) => request.grant.sendNumber)).toEqual([1, 2]);
  });

  it('grants nothing if it is about a later send', async () => {
    const scene = new Scene({ asks: [waiting(), waiting()] });
    await scene.advance();
    scene.receive(granted({ sendNumber: 2 }));
    await scene.advance(MINUTE);
    expect(scene.sent).toEqual([]);
  });

  it('grants one send only, although it comes again during a send that belongs to another run', async () => {
    const sends = [{ outcome: 'foreign', afterMs: SECOND } as const];
    const scene = new Scene({ asks: [waiting(), waiting()], sends });
    await scene.advance();
    scene.receive(granted({ runId: 'earlier' }));
    await scene.advance(SECOND / 2);
    scene.receive(granted({ runId: 'earlier' }));
    await scene.advance(MINUTE);
    expect(scene.calls).toEqual(['ask 1', 'send 1', 'ask 1']);
  });

  it('grants one send only, although it comes again after that send', async () => {
    const scene = new Scene({ asks: [waiting(), waitingToWatch, noReply()], job: () => working, sends: [notSent] });
    await scene.advance(6 * HOUR + SECOND);
    scene.receive(granted());
    await scene.advance();
    scene.receive(granted());
    await scene.advance(SECOND);
    expect(scene.sent).toHaveLength(1);
  });
});
