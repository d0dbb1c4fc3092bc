/** The workflows of the product's worker in the benchmark: its own, and the one that collects garbage. */
export * from '../../dist/workflows/index.js';
export { collectGarbage } from './collect-garbage-workflow.js';
