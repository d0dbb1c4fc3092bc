/** An edit of the workflow bundle, in which `from` must occur. */
export interface BundleEdit {
  what: string;
  from: RegExp;
  to: string;
}

/** An edit that changes the commands of a workflow. */
interface BreakingEdit extends BundleEdit {
  /** The type of the workflow whose histories must no longer replay. */
  in: string;
}

const WORKFLOW = String.raw`\(0,_temporalio_workflow__WEBPACK_IMPORTED_MODULE_0__\.`;

export const breakingEdits: readonly BreakingEdit[] = [
  {
    what: 'another activity type',
    from: /sendFollowUp\.executeWithOptions/g,
    to: 'getJob.executeWithOptions',
    in: 'followUp',
  },
  {
    what: 'a poll by an activity instead of a local one',
    from: new RegExp(`${WORKFLOW}proxyLocalActivities\\)`, 'g'),
    to: '(0,_temporalio_workflow__WEBPACK_IMPORTED_MODULE_0__.proxyActivities)',
    in: 'followUp',
  },
  {
    what: 'the end is not shown',
    from: /flow\.show\(ended\);/g,
    to: '',
    in: 'followUp',
  },
  {
    what: 'a missing timer: a deciding poll comes at once',
    from: /yield\* flow\.sleep\(waitMs, `next poll in/g,
    to: 'if (state.polls > 99) yield* flow.sleep(waitMs, `next poll in',
    in: 'followUp',
  },
  {
    what: 'one more command: the job is read twice before an ask',
    from: /const read = yield\* flow\.getJob\('baseline'/g,
    to: "yield* flow.getJob('baseline'); const read = yield* flow.getJob('baseline'",
    in: 'followUp',
  },
  {
    what: 'one command less: the budget is not told of the end',
    from: /yield\* port\.tell\(\{\s*workflowId/g,
    to: 'yield* (function* () {})({ workflowId',
    in: 'followUp',
  },
  {
    what: 'search attributes that are written even if nothing changed',
    from: /if \(pairs\.length > 0\)/g,
    to: 'if (pairs.push({ key: _contract_index_js__WEBPACK_IMPORTED_MODULE_1__.SearchAttribute.state, value: progress.state }))',
    in: 'followUp',
  },
  {
    what: 'no timer for the next slot',
    from: /if \(lookAgainAtMs !== undefined\)\s*this\.#alarm\.set\(lookAgainAtMs\);/g,
    to: '',
    in: 'projectBudget',
  },
  {
    what: 'a timer for every event, although an earlier one runs',
    from: /if \(atMs < this\.nextAtMs\)/g,
    to: 'if (atMs)',
    in: 'projectBudget',
  },
  {
    what: 'nobody is woken',
    from: /for \(const workflowId of wake\)/g,
    to: 'for (const workflowId of [])',
    in: 'projectBudget',
  },
  {
    what: 'a run that never continues as new',
    from: /run\.untilRunOut\(\)/g,
    to: 'new Promise(() => undefined)',
    in: 'projectBudget',
  },
  {
    what: 'one follow-up less at a time',
    from: /for \(const start of part\.start\(nowMs\)\)/g,
    to: 'for (const start of part.start(nowMs).slice(1))',
    in: 'followUpBatchPart',
  },
  {
    what: 'a part under another id',
    from: /\(\{\s*batchId,\s*part\s*\}\),\s*args: \[\s*input\s*\]/g,
    to: '({ batchId, part: part + 1 }), args: [input]',
    in: 'followUpBatch',
  },
];

/** Edits that must still replay: what is free to change. */
export const harmlessEdits: readonly BundleEdit[] = [
  { what: 'another summary of a timer', from: /`next poll in /g, to: '`the next poll comes in ' },
  {
    what: 'another summary of the budget’s timer',
    from: /'next slot or invitation'/g,
    to: "'later'",
  },
  {
    what: 'another length of a timer',
    from: /Math\.max\(1, Math\.round\(ms\)\)/g,
    to: '(Math.round(ms) + 5)',
  },
  {
    what: 'one more field in an argument',
    from: /sendNumber: state\.sendNumber,/g,
    to: 'sendNumber: state.sendNumber, more: 1,',
  },
];
