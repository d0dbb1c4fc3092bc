import type { GrantedBefore } from '../contract/index.js';

/** What an attempt leaves with the server before it sends, for the attempts after it. */
export interface GrantMark {
  ledgerSinceMs: number;
}

interface Told {
  grantedBefore?: GrantedBefore | undefined;
  ledgerSinceMs?: number | undefined;
}

/**
 * What an attempt knows of earlier ones. One that was granted has left its mark. Where an operator has reset the
 * activity, its attempts are counted anew and its marks may be gone.
 *
 * @param told what the follow-up knew when it scheduled the activity
 * @param isReset whether attempts are counted anew
 */
export function knownBefore(
  told: Told,
  mark: GrantMark | undefined,
  isReset: boolean,
): { grantedBefore?: GrantedBefore; ledgerSinceMs?: number } {
  const grantedBefore = mark ? 'surely' : (told.grantedBefore ?? (isReset ? 'perhaps' : undefined));
  const ledgerSinceMs = mark?.ledgerSinceMs ?? told.ledgerSinceMs;
  return { ...(grantedBefore && { grantedBefore }), ...(ledgerSinceMs !== undefined && { ledgerSinceMs }) };
}
