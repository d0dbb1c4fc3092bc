import type { SearchAttributeUpdatePair } from '@temporalio/common';
import { setCurrentDetails, upsertSearchAttributes } from '@temporalio/workflow';
import { toMarkdown } from '../common/index.js';
import { MAX_KEYWORD_LENGTH, SearchAttribute } from '../contract/index.js';
import { describeFollowUp } from '../follow-up/follow-up-details.js';
import type { FollowUpPort } from '../follow-up/port.js';

/** Shows progress. The details change each time; search attributes, which cost an event, change only if they differ. */
export function createDisplay(workflowId: string, arePrivate: () => boolean): FollowUpPort['show'] {
  const shown = new Map<string, string>();
  let shownSendAtMs: number | undefined;
  return (progress, lastSendAtMs) => {
    const { projectId, jobId, state, jobStatus, prLink } = progress;
    const isLinkShown = prLink !== undefined && prLink.length <= MAX_KEYWORD_LENGTH && !arePrivate();
    const values = { projectId, jobId, state, jobStatus, ...(isLinkShown && { prLink }) };
    const pairs: SearchAttributeUpdatePair[] = Object.entries(values).flatMap(([name, value]) => {
      if (value === undefined || shown.get(name) === value) return [];
      shown.set(name, value);
      return [{ key: SearchAttribute[name as keyof typeof values], value: value.slice(0, MAX_KEYWORD_LENGTH) }];
    });
    if (lastSendAtMs !== shownSendAtMs)
      pairs.push({
        key: SearchAttribute.lastSendAt,
        value: lastSendAtMs === undefined ? null : new Date(lastSendAtMs),
      });
    shownSendAtMs = lastSendAtMs;
    if (pairs.length > 0) upsertSearchAttributes(pairs);
    const nowMs = Date.now();
    setCurrentDetails(toMarkdown((at) => describeFollowUp(progress, workflowId, at, nowMs), nowMs));
  };
}
