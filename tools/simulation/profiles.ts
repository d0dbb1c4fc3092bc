/** The kinds of faults, each a profile of its own. */
const faults = [
  ...(['workers', 'freezes', 'clocks', 'network', 'signals', 'service', 'refusals', 'stale', 'takeovers'] as const),
  ...(['firewall', 'outages'] as const),
  ...(['budget-resets', 'budget-stops', 'budget-deletions', 'resets', 'stops', 'by-hand', 'activities'] as const),
  ...(['commands', 'reuse', 'impatient', 'crowds', 'retold', 'revived', 'batch'] as const),
];
export type Fault = (typeof faults)[number];

/** Worlds: `calm` has no faults, `backlog` has 320 follow-ups and no faults, and `calm-batch` a batch and no faults. */
export const profiles = ['calm', ...faults, 'all', 'backlog', 'calm-batch'];

/** The faults of a profile. Kinds may be joined with `+`. */
export function faultsOf(profile: string): readonly Fault[] {
  const unknown = profile.split('+').find((name) => !profiles.includes(name));
  if (unknown !== undefined) throw new Error(`no profile is called ${unknown}`);
  if (profile === 'all') return faults.slice(0, faults.indexOf('retold'));
  const kinds = new Set(profile.split('+'));
  // Items whose delivery is unknown, and calls and tasks that are lost.
  if (kinds.has('batch')) for (const kind of ['network', 'takeovers']) kinds.add(kind);
  return faults.filter((fault) => kinds.has(fault));
}

/** Whether a fault is the only one: then many jobs take part. */
export const isOnly = (has: ReadonlySet<Fault>, fault: Fault): boolean => has.size === 1 && has.has(fault);

/** Whether a budget may have to start afresh. */
export const isBudgetLost = (has: ReadonlySet<Fault>): boolean =>
  (['budget-resets', 'budget-stops', 'budget-deletions', 'retold', 'revived'] as const).some((fault) => has.has(fault));
