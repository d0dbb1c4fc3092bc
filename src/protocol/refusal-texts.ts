import type { Refusal } from '../contract/index.js';

/** What the service does, and what to check if it does so to all messages of a project. */
export const REFUSALS: Readonly<Record<Refusal, { what: string; fix: string }>> = {
  limited: { what: 'the service answers 429', fix: 'no action is needed' },
  credentials: {
    what: 'the service answers 401 or 403',
    fix: 'check the API key of the project, and any firewall in front of the service',
  },
  payment: { what: 'the service answers 402', fix: "check the project's account at the service" },
  outage: { what: 'the service does not say whether messages arrive', fix: 'check the service' },
};

/** The same for a message that is refused while others are accepted. */
export const REFUSED_ALONE = {
  what: 'but accepts others',
  fix: 'check the message for text that a firewall blocks, and its job',
} as const;

/** What the service answers, with its HTTP status if that is known. */
export function describeRefusal(reason: Refusal, statusCode?: number): string {
  const isNamed = statusCode !== undefined && reason !== 'outage';
  return isNamed ? `the service answers ${statusCode}` : REFUSALS[reason].what;
}
