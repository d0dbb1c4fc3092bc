/** What the product's worker runs in the benchmark: its own workflows, and the one that collects garbage. */
export * from '../dist/workflows/index.js';
export { collectGarbage } from './collect-garbage-workflow.js';
