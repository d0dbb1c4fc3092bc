import { defineSignal } from '@temporalio/workflow';
import type { PartOrder } from '../../batch/orders.js';
import type { PartReport } from '../../batch/part.js';

/** From a batch to a part. */
export const partOrderSignal = defineSignal<[PartOrder]>('partOrder');

/** From a part to its batch. */
export const partReportSignal = defineSignal<[PartReport]>('partReport');
