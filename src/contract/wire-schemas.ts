import type { z } from 'zod';
import { followUpBatchInputSchema } from './batch-input.js';
import { batchItemsSchema, batchStatusSchema, followUpBatchResultSchema } from './batch-result.js';
import { failureDetailsSchema, followUpProgressSchema, followUpResultSchema } from './follow-up.js';
import { followUpInputSchema, followUpSettings, MAX_PROMPT_BYTES } from './follow-up-input.js';

/**
 * What the build makes the JSON Schemas in `schemas` from: everything that callers in other languages write and read.
 * Nothing else loads this module.
 */
export function wireSchemas() {
  const named = (name: string, title: string, schema: z.ZodType) => ({ name, title, schema });
  return {
    followUpSettings,
    maxPromptBytes: MAX_PROMPT_BYTES,
    inputs: [
      named('follow-up-input', 'Input of the followUp workflow', followUpInputSchema),
      named('follow-up-batch-input', 'Input of the followUpBatch workflow', followUpBatchInputSchema()),
    ],
    answers: [
      named('follow-up-result', 'Result of the followUp workflow', followUpResultSchema),
      named('follow-up-progress', 'Answer of the query progress', followUpProgressSchema()),
      named('follow-up-failure', 'First of the details of a failed followUp workflow', failureDetailsSchema()),
      named('follow-up-batch-result', 'Result of the followUpBatch workflow', followUpBatchResultSchema()),
      named('follow-up-batch-status', 'Answer of the query batchStatus', batchStatusSchema()),
      named('follow-up-batch-items', 'Answer of the query batchItems', batchItemsSchema()),
    ],
  };
}
