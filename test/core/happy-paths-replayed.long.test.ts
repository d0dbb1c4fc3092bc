import { testHappyPaths } from './support/happy-paths.js';

// A cache of one workflow: nearly every task replays its history. The server offers a task for 10 s to the worker that had
// the workflow last, so a grant may be answered late.
testHappyPaths({ maxCachedWorkflows: 1, leaseMs: 60_000 });
