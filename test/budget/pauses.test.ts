import { describe, expect, it } from 'vitest';
import { Desk, HOUR, T0, testRules } from './support.js';

describe('a message that the service refuses alone', () => {
  const twice = `ask bad@x, settle bad payment, ask a, then -> a, settle a, paused -> no,
    ask bad number=2 -> granted, settle bad payment number=2, ask b, then -> b, settle b, paused -> no,
    ask bad number=3 -> granted, settle bad payment number=3, paused -> no`;
  testRules(`
  - waits ever longer, or as its Retry-After says, and the others go on, those to its job too [limit=100]
    ${twice}, ask bad number=4 -> waiting payment, ask c -> granted, ask d@x -> granted, end d, next -> 1m bad,
    settle bad payment number=4, ask bad number=5 -> waiting payment, next -> 2m bad,
    settle bad payment number=5 retry=1h, ask bad number=6 -> waiting payment, next -> 1h bad
  - is tried again at once when an operator resumes [limit=100]
    ${twice}, ask bad number=4 -> waiting payment, resume, granted -> bad
  - is taken for a service that refuses all where nothing else was accepted for a while [limit=100]
    ${twice}, ask bad number=4, then -> bad, settle bad payment number=4, ask bad number=5, then -> bad,
    settle bad payment number=5, ask bad number=6, then -> bad, settle bad payment number=6, paused -> no,
    ask bad number=7, then -> bad, settle bad payment number=7, paused -> payment
  - as a 429 pauses the project each time, but leaves the probe to another follow-up after a while [limit=100]
    ask bad, settle bad limited, ask a, ask bad number=2, then -> bad, settle bad limited number=2, ask bad number=3,
    then -> bad, settle bad limited number=3, ask bad number=4, then -> bad, settle bad limited number=4,
    ask bad number=5, then -> a, settle a, paused -> no
  `);
});

describe('a refusal of the whole project', () => {
  testRules(`
  - makes all wait, lets one probe, and then the rest follow [limit=100]
    ask a, settle a limited, ask b*12, ask c -> waiting limited, next -> 30s b0, wait 10s, granted ->, settle b0,
    granted -> b1 b2 b3 b4 b5 b6 b7 b8 b9 b10, paused -> no
  - that a read right before the send brought pauses too, and its slot is free [limit=1]
    ask a, ask b, settle a notSent refusal=credentials retry=1m, slots ->, ask c -> waiting credentials,
    next -> 1m b, settle b notSent refusal=credentials, next -> 1m c
  - of a read before the ask pauses all, and the pause is left to its probe
    ask a, ask b refusal=credentials retry=1m -> waiting credentials, wait 30s,
    ask c refusal=credentials -> waiting credentials, next -> 30s b, settle b, granted -> c
  - that is a 429 is probed by the same follow-up again [limit=100]
    ask a, settle a limited, ask b*12, then -> b0, settle b0 limited, ask b0 number=2, then -> b0
  - that may concern one job alone is probed by another follow-up next [limit=100]
    ask a, settle a unauthorized, ask b*12, then -> b0, settle b0 unauthorized, ask b0 number=2, then -> b1
  - pauses no longer for sends under way that are refused too, and is not over for one that arrives [limit=100]
    ask a*11, settle a*9 payment, settle a9, next -> 30s a10
  - lets another probe where the one before was not sent, is unknown, or says nothing within its lease
    ask a, settle a limited, ask b*12, then -> b0, settle b0 notSent, next -> 0s b1, settle b1 unknown, next -> 0s b2,
    wait lease, next -> 0s b3
  - pauses also if it is heard after its grant is over
    ask a, wait over, settle a unauthorized, ask b -> waiting credentials, resume, settle a unauthorized,
    granted -> b
  - is one reason to wait, told once, until a probe succeeds [limit=100]
    ask a, settle a unauthorized, ask b*12, keep, wait 10m, granted -> b0, settle b0 unauthorized,
    ask b0 number=2, told ->, wait 10m, granted -> b1, settle b1 unauthorized, ask b1 number=2, told ->,
    then -> b2, settle b2, paused -> no
  - is probed at once when an operator resumes, and never while he pauses [limit=100]
    ask a, settle a payment, ask b*12, pause, wait 1h, granted ->, resume, granted -> b0, ask c -> waiting payment
  - pauses once, however many reads are refused meanwhile
    ask a refusal=credentials, wait 20s, ask b refusal=credentials, next -> 10s a
  - pauses until the latest Retry-After
    ask a, ask b, settle a limited retry=2m, settle b limited retry=1s, ask c, keep, next -> 2m c
  - is news only once: it may be told again after the next send
    ask a, settle a limited, wait 1m, ask a reset run=second number=2, settle a,
    settle a limited run=run-of-a number=1, paused -> no
  - pauses for as long as Retry-After says, else twice as long after each probe, up to ten minutes [limit=100]
    ask a, settle a limited retry=45m, ask b*12, next -> 45m b0, settle b0 limited, next -> 1m b1, settle b1 limited,
    next -> 2m b2, settle b2 limited, next -> 4m b3, settle b3 limited, next -> 8m b4, settle b4 limited,
    next -> 10m b5, settle b5 limited, next -> 10m b6
  `);

  it('is spent on few probes where the service always asks for another try too soon', () => {
    const desk = new Desk({ limit: 100 }).play('ask a');
    for (let number = 1; desk.nowMs < T0 + HOUR; number++) {
      desk.play(`settle a limited retry=1s number=${number}`);
      if (desk.ask('a', { sendNumber: number + 1 }).kind !== 'granted') desk.nextGrants();
    }
    expect(desk.budget.slotEnds().length).toBeLessThan(20);
  });
});

describe('a service with a lower limit than the budget', () => {
  testRules(`
  - is not learned for long from a passing 429 in the middle of an hour [limit=100]
    send a*20, wait 15m, send b*20, wait 15m, ask refused, settle refused limited, bound -> 40, ask probe,
    next -> 30s probe, settle probe, bound -> 100
  - is not learned from a short burst [limit=100]
    ask a, ask b*9, settle a, settle b*9 limited, bound -> 100
  - is tried again after each window, by twice as much
    send a*3, ask refused, settle refused limited, bound -> 3, wait 1h, bound -> 4, wait 1h, bound -> 6, wait 1h,
    bound -> 10
  - is tried again after twice as long where it proved right, and one probe more does not disprove it
    send a*3, ask r, settle r limited, end r, ask p, then -> p, settle p rejected, end p, wait held, bound -> 4,
    send b*3, ask s, settle s limited, end s, ask q, then -> q, settle q, bound -> 3, wait 1h, bound -> 3, wait 1h,
    bound -> 4
  - is forgotten when an operator resumes or sets a limit
    send a*3, ask refused, settle refused limited, bound -> 3, resume, bound -> 10, ask again, settle again limited,
    bound -> 3, limit -, bound -> 10
  - counts the refusals of one pause once [limit=20]
    ask u*6, settle u*4, settle u4 limited, settle u5 limited, bound -> 4, wait 1h, bound -> 5
  - is raised if more is accepted without a probe [limit=20]
    ask u*5, settle u*3, ask x, settle x limited, bound -> 3, settle u3, settle u4, bound -> 5
  `);
});
