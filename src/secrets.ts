import { createSecretMask, MASK } from './agent-jobs/secret-mask.js';

/** Shorter texts are not masked: they would also be masked in plain words. */
const MIN_LENGTH = 8;

/** Names that everybody knows and every output shows. Masked, they would hide what a workflow id or a task queue is. */
const OWN_NAMES = new Set(['agent-follow-up', 'follow-up', 'follow-ups', 'follow-up-batch', 'project-budget']);

/** Most secrets that are looked for in every encoding. If there are more, the oldest are looked for only as they are. */
const MAX_MASKS = 50;

/** How a secret is looked for. */
export type Spellings = 'every' | 'literal';

/** Masks of secrets in every encoding. */
const masks = new Map<string, (text: string) => string>();
/** All secrets as they are and in JSON, by their first characters: there may be thousands. */
const literals = new Map<string, string[]>();

/**
 * From now on, {@link maskSecrets} hides a secret. A text below 8 characters is ignored, and a name of this package.
 *
 * @param spellings `every`: in all encodings in which a server may echo a header. `literal`: as it is and in JSON, at a
 *   cost that does not grow with the number of secrets
 */
export function keepSecret(secret: string, spellings: Spellings = 'every'): void {
  if (secret.length < MIN_LENGTH || OWN_NAMES.has(secret)) return;
  for (const spelling of new Set([secret, JSON.stringify(secret).slice(1, -1)])) keepLiteral(spelling);
  if (spellings === 'literal') return;
  // The newest is last.
  const mask = masks.get(secret) ?? createSecretMask(secret);
  masks.delete(secret);
  masks.set(secret, mask);
  const [oldest = secret] = masks.keys();
  if (masks.size > MAX_MASKS) masks.delete(oldest);
}

function keepLiteral(secret: string): void {
  const start = secret.slice(0, MIN_LENGTH);
  const known = literals.get(start);
  if (known === undefined) literals.set(start, [secret]);
  else if (!known.includes(secret)) known.push(secret);
}

/**
 * The text without the secrets of this process's settings: of the service, of Temporal, of a proxy.
 * Output, logs, metrics and errors of gRPC pass through here.
 */
export function maskSecrets(text: string): string {
  let masked = maskLiterals(text);
  // The longest first: a shorter one may be its beginning.
  for (const [, mask] of [...masks].sort(([a], [b]) => b.length - a.length)) masked = mask(masked);
  return masked;
}

function maskLiterals(text: string): string {
  if (literals.size === 0) return text;
  const kept: string[] = [];
  let from = 0;
  for (let at = 0; at + MIN_LENGTH <= text.length;) {
    const start = at;
    const found = literals.get(text.slice(at, at + MIN_LENGTH))?.filter((secret) => text.startsWith(secret, start));
    if (found === undefined || found.length === 0) {
      at += 1;
      continue;
    }
    kept.push(text.slice(from, at), MASK);
    at += Math.max(...found.map(({ length }) => length));
    from = at;
  }
  return kept.join('') + text.slice(from);
}
