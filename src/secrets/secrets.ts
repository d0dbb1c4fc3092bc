import { createSecretMask, MASK } from './secret-mask.js';

/** Shorter texts are not masked, because they also occur in plain words. */
const MIN_LENGTH = 8;

/** Public names. Masking them would hide workflow ids and task queues. */
const OWN_NAMES = new Set(['agent-follow-up', 'follow-up', 'follow-ups', 'follow-up-batch', 'project-budget']);

/** Most secrets that are found in every encoding. Older ones are found only literally. */
const MAX_MASKS = 50;

/** The encodings in which a secret is found. */
type Spellings = 'every' | 'literal';

const masks = new Map<string, (text: string) => string>();
/** All secrets, literal and in JSON, by their first characters: there may be thousands. */
const literals = new Map<string, string[]>();

/**
 * Makes {@link maskSecrets} hide a secret, and its parts if it contains white space by mistake. Ignores texts below 8
 * characters and names of this package.
 *
 * @param spellings `every`: in all encodings in which a server may echo a header. `literal`: literally and in JSON, at
 *   a cost independent of the number of secrets
 */
export function keepSecret(text: string, spellings: Spellings = 'every'): void {
  const whole = text.trim();
  for (const secret of new Set([whole, ...whole.split(/\s+/)])) {
    if (secret.length < MIN_LENGTH || OWN_NAMES.has(secret)) continue;
    for (const spelling of new Set([secret, JSON.stringify(secret).slice(1, -1)])) keepLiteral(spelling);
    if (spellings === 'literal') continue;
    // Moves it to the end.
    const mask = masks.get(secret) ?? createSecretMask(secret);
    masks.delete(secret);
    masks.set(secret, mask);
    const [oldest = secret] = masks.keys();
    if (masks.size > MAX_MASKS) masks.delete(oldest);
  }
}

function keepLiteral(secret: string): void {
  const start = secret.slice(0, MIN_LENGTH);
  const sameStart = literals.get(start) ?? [];
  if (!sameStart.includes(secret)) literals.set(start, [...sameStart, secret]);
}

const KEY = /^(?:AGENT_JOBS_API_KEY|TEMPORAL_API_KEY|TEMPORAL_CODEC_AUTH)$/;
/** Other programs' variables are skipped: their passwords, such as `temporal`, may be plain words. */
const ADDRESS = /^(?:AGENT_JOBS|TEMPORAL)_(?:\w+_)?(?:ADDRESS|ENDPOINT|URL)$|_proxy$/i;
/** A password may contain an unencoded `/` or `@`. */
const URL_WITH_PASSWORD = /^(?:[a-z][a-z0-9+.-]*:\/\/)?(.+)@/is;
/** Prefix of the variables that set headers of the requests to Temporal. */
export const HEADER_PREFIX = 'TEMPORAL_GRPC_META_';

/**
 * Headers about the origin or format of the data. Their values are common names, whose masking would hide parts of
 * workflow ids and metrics.
 */
const PUBLIC_HEADER =
  /(?:^|[-_.])(?:dataset|env|environment|tenant|org|organization|scope|region|namespace|project|service|user[-_]agent|content[-_]type)(?:[-_.]?id)?$/i;

/**
 * Registers every secret in the environment, valid or not: keys, headers, a certificate's key, and user and password of
 * an address or a proxy.
 */
export function keepSecretsOf(env: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value = ''] of Object.entries(env)) {
    if (KEY.test(name)) keepSecret(value);
    else if (name.startsWith(HEADER_PREFIX)) keepHeader(name.slice(HEADER_PREFIX.length), value);
    else if (name === 'TEMPORAL_TLS_CLIENT_KEY_DATA') keepPrivateKey(value);
    const credentials = ADDRESS.test(name) && URL_WITH_PASSWORD.exec(value)?.[1];
    if (credentials) keepCredentials(credentials);
  }
}

/** Registers a header of the requests to Temporal, unless its name shows that it is public. */
export function keepHeader(name: string, value: string): void {
  if (!PUBLIC_HEADER.test(name)) keepSecret(withoutScheme(value));
}

/** The key of an authorization without its scheme, such as `Bearer`. */
export function withoutScheme(value: string): string {
  return value.replace(/^\s*(?:basic|bearer)\s+/i, '');
}

/** Registers the lines of a private key in PEM, except those that name its kind. */
export function keepPrivateKey(pem: string): void {
  for (const line of pem.split(/\s*\n\s*|\\n/)) if (!line.includes('-----')) keepSecret(line, 'literal');
}

function keepCredentials(text: string): void {
  for (const spelling of [text, decoded(text)]) {
    keepSecret(spelling, 'literal');
    keepSecret(spelling.slice(spelling.indexOf(':') + 1), 'literal');
    keepSecret(Buffer.from(spelling).toString('base64'), 'literal');
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Masks the secrets of this process's settings: of the service, of Temporal, of a proxy. All output, logs, metrics and
 * gRPC errors go through here.
 */
export function maskSecrets(text: string): string {
  let masked = maskLiterals(text);
  // The longest first, because a shorter one may be its beginning.
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
