import { defineSignal } from '@temporalio/workflow';
import type { PartOrder } from '../../batch/orders.js';
import type { PartReport } from '../../batch/part.js';

/** From a batch to a part. */
export const partOrderSignal = defineSignal<[PartOrder]>('partOrder');

/** From a part to its batch. */
export const partReportSignal = defineSignal<[PartReport]>('partReport');

/** Of the activities by which a batch or a part looks up what it was not told. */
export const LOOK_UP_OPTIONS = {
  startToCloseTimeout: '2m',
  retry: { initialInterval: '1s', maximumInterval: '30s', maximumAttempts: 10 },
} as const;
