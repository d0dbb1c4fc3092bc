import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { INVITATION_GRACE_MS } from '../../src/budget/limits.js';
import { breakages, isBreakage } from '../../simulation/breakages.js';
import { runSeed } from '../../simulation/run-seed.js';
import { expectRight, simulate } from './support.js';

/** These run in seconds. `npm run test:long` runs the next 2,500, and `npm run simulate` any number. */
const SEEDS = 500;

const seedsFile = new URL('failing-seeds.json', import.meta.url);
/** Seeds that fail without a rule, by the rule. `rules` has the seeds that once broke the rules themselves. */
const { rules: oldFailures = [], ...seedsByRule } = JSON.parse(readFileSync(seedsFile, 'utf8')) as Record<
  string,
  number[]
>;

describe('under faults of every kind, the rules of the budget', () => {
  test(`stay within the budget, send once, end every follow-up and tell the truth in ${SEEDS} seeds`, () => {
    expectRight(1, SEEDS);
  });

  test('hold in every seed that once broke them', () => {
    expect(oldFailures.length).toBeGreaterThan(0);
    expect(simulate(oldFailures).isRight).toBe(true);
  });
});

describe('without a rule', () => {
  test('every rule that can be removed has seeds that fail', () => {
    expect(Object.keys(seedsByRule).sort()).toEqual(Object.keys(breakages).sort());
  });

  test.each(Object.entries(seedsByRule))('%s, its seeds fail', (rule, seeds) => {
    if (!isBreakage(rule)) throw new Error(`${rule} is not the name of a rule`);
    for (const seed of seeds) {
      expect({ seed, isRight: simulate([seed], { broken: new Set([rule]) }).isRight }).toEqual({
        seed,
        isRight: false,
      });
      expect({ seed, isRight: simulate([seed]).isRight }).toEqual({ seed, isRight: true });
    }
  });
});

describe('a queue of 120 follow-ups, 24 windows deep', () => {
  test('leaves less than 1 % of the slots idle and needs at most 3 asks for each grant', () => {
    const { idleShare, perGrant, longestStandMs } = simulate([1], { profile: 'backlog' }).toJson(1);
    expect(idleShare).toBeLessThan(0.01);
    expect(perGrant.asks).toBeLessThanOrEqual(3);
    expect(longestStandMs).toBeLessThanOrEqual(INVITATION_GRACE_MS);
  });

  test.each(['dead', 'busy'] as const)(
    'leaves less than 1 % of the slots idle even if follow-ups ahead are %s',
    (profile) => {
      const report = simulate([1], { profile });
      expect(report.isRight).toBe(true);
      expect(report.toJson(1).idleShare).toBeLessThan(0.01);
    },
  );

  test('wastes no free slot and gets fewer than 300 asks an hour with both lanes and a reserve', () => {
    const report = simulate([1, 2, 3, 4, 5, 6, 7, 8], { profile: 'reserve' });
    expect(report.isRight).toBe(true);
    const { asksInAnyHour, longestPassedOverMs, longestStandMs } = report.toJson(1);
    expect(asksInAnyHour).toBeLessThan(300);
    expect(longestStandMs).toBeLessThanOrEqual(INVITATION_GRACE_MS);
    expect(longestPassedOverMs).toBeLessThanOrEqual(INVITATION_GRACE_MS);
  });
});

describe('a seed', () => {
  test('gives the same report every time, and the same trace', () => {
    const runs = [1, 2].map(() => {
      const lines: string[] = [];
      const report = runSeed({ seed: 43, trace: (line) => lines.push(line) });
      return { report, lines };
    });
    expect(runs[0]).toEqual(runs[1]);
    expect(runs[0]?.lines.length).toBeGreaterThan(50);
    expect(runSeed({ seed: 43 })).toEqual(runs[0]?.report);
  });
});

describe('the command', () => {
  test('names the failing seeds and exits 1', () => {
    const [seed] = seedsByRule['clock'] ?? [];
    const { status, stdout } = run('--seeds', `${seed}`, '--break', 'clock', '--json');
    expect(status).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({ seeds: 1, failures: { overBudget: { seeds: 1, examples: [seed] } } });
  });

  test('exits 0 if all is right, and prints the figures', () => {
    const { status, stdout } = run('--seeds', '1..20');
    expect(stdout).toMatch(/^20 seeds of chaos: all right\n/);
    expect(status).toBe(0);
  });

  test.each([
    [['--seeds', '5..1'], 'must not be below'],
    [['--break', 'everything'], '"everything" must be one of nonce'],
    [['--profile', 'calm'], 'must be one of chaos'],
    [['--trace', 'x'], 'must be a whole number'],
  ])('refuses %j and names the rule', (words, rule) => {
    const { status, stderr } = run(...words);
    expect(stderr).toContain(rule);
    expect(status).not.toBe(0);
  });

  function run(...words: string[]) {
    const main = fileURLToPath(new URL('../../simulation/run.js', import.meta.url));
    return spawnSync(process.execPath, [main, ...words], { encoding: 'utf8' });
  }
});
