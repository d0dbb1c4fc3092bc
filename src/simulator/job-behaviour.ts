/** How a job deals with messages. What is not set comes from the simulator's options. */
export interface JobBehaviour {
  /** Status at the end of each turn. */
  outcome?: 'completed' | 'failed' | 'archived' | undefined;
  /** Pull request at the end of a turn: another one, the one before, none, or this very text. */
  prLinkAfterTurn?: 'new' | 'same' | 'none' | { url: string } | undefined;
  /** Factor by which turns take longer. @default 1 */
  turnFactor?: number | undefined;
  /** Turns have no end. @default false */
  neverEnds?: boolean | undefined;
}

/** What the id of a job that nobody made says about it. */
interface JobRecipe extends JobBehaviour {
  /** Status before the first message. @default 'completed' */
  initialStatus?: 'active' | 'archived';
}

/**
 * Jobs by the beginning of their id, so that a demonstration needs no set-up. All other ids behave as the options say.
 *
 * | id | behaviour |
 * |---|---|
 * | `fail-…` | its turns end `failed` |
 * | `archive-…` | gets archived at the end of its turn |
 * | `archived-…` | is archived from the start; a message is refused with 400 |
 * | `nopr-…` | completes without a pull request |
 * | `same-…` | completes with the pull request it had before |
 * | `slow-…` | its turns take ten times as long |
 * | `active-…` | is at work when first asked for, for one turn |
 * | `stuck-…` | its turns never end |
 * | `missing-…` | does not exist, also with `autoCreate` |
 */
const recipes: Readonly<Record<string, JobRecipe>> = {
  fail: { outcome: 'failed' },
  archive: { outcome: 'archived' },
  archived: { initialStatus: 'archived' },
  nopr: { prLinkAfterTurn: 'none' },
  same: { prLinkAfterTurn: 'same' },
  slow: { turnFactor: 10 },
  active: { initialStatus: 'active' },
  stuck: { neverEnds: true },
};

/** The recipe for a job id; `undefined` where no such job is made. */
export function recipeFor(jobId: string): JobRecipe | undefined {
  const prefix = jobId.slice(0, Math.max(0, jobId.indexOf('-')));
  if (prefix === 'missing') return undefined;
  return Object.hasOwn(recipes, prefix) ? recipes[prefix] : {};
}
