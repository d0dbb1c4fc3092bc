import type { GrantedBefore } from '../contract/index.js';

/** What an attempt leaves with the server before it sends, for the attempts after it. */
export interface GrantMark {
  ledgerSinceMs: number;
}

/** What a follow-up knows of the asks before this one. */
export interface KnownBefore {
  grantedBefore?: GrantedBefore;
  provenNotSent?: true;
  ledgerSinceMs?: number;
}

/**
 * What an attempt knows of earlier ones. One that was granted has left its mark. Where an operator has reset the
 * activity, its attempts are counted anew and its marks may be gone: only the first attempt can tell that nobody has.
 *
 * @param told what the follow-up knew when it scheduled the activity
 * @param attempt.number from 1
 * @param attempt.isReset whether the attempt count was reset
 */
export function knownBefore(
  told: { [Name in keyof KnownBefore]?: KnownBefore[Name] | undefined },
  { number, isReset, mark }: { number: number; isReset: boolean; mark: GrantMark | undefined },
): KnownBefore {
  const grantedBefore = mark ? 'surely' : (told.grantedBefore ?? (isReset ? 'perhaps' : undefined));
  const ledgerSinceMs = mark?.ledgerSinceMs ?? told.ledgerSinceMs;
  return {
    ...(grantedBefore && { grantedBefore }),
    ...(told.provenNotSent && number === 1 && !grantedBefore && { provenNotSent: true }),
    ...(ledgerSinceMs !== undefined && { ledgerSinceMs }),
  };
}
