import { keepSecret, type Spellings } from '../secrets.js';
import type { Environment } from './settings-reader.js';

const KEY = /^(?:AGENT_JOBS_API_KEY|TEMPORAL_API_KEY|TEMPORAL_CODEC_AUTH)$/;
/** A password may hold a `/` or an `@` that was not encoded. */
const URL_WITH_PASSWORD = /^(?:[a-z][a-z0-9+.-]*:\/\/)?(.+)@/is;

/**
 * Headers that say whose data it is, from where, or in what format. People give such things the same names everywhere:
 * masked, they would disappear from workflow ids and metrics.
 */
const PUBLIC_HEADER =
  /(?:^|[-_.])(?:dataset|env|environment|tenant|org|organization|scope|region|namespace|project|service|user[-_]agent|content[-_]type)(?:[-_.]?id)?$/i;

/**
 * Masks every secret that the environment itself holds from now on, valid or not: keys, headers, the key of a
 * certificate, and the user and password of an address or a proxy.
 */
export function keepSecretsOf(env: Environment): void {
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || value === '') continue;
    if (KEY.test(name)) keepKey(value);
    else if (name.startsWith('TEMPORAL_GRPC_META_')) keepHeader(name.slice('TEMPORAL_GRPC_META_'.length), value);
    else if (name === 'TEMPORAL_TLS_CLIENT_KEY_DATA') keepPrivateKey(value);
    const credentials = URL_WITH_PASSWORD.exec(value)?.[1];
    if (credentials !== undefined && isAddress(name)) keepCredentials(credentials);
  }
}

/** A header of each request to Temporal. One whose name says nothing may be a secret. */
export function keepHeader(name: string, value: string): void {
  if (!PUBLIC_HEADER.test(name)) keepKey(withoutScheme(value));
}

/** The key of an authorization. The word before it, such as `Bearer`, is no secret. */
export function withoutScheme(value: string): string {
  return value.replace(/^\s*(?:basic|bearer)\s+/i, '');
}

/** A key, and its parts if white space was copied into it. */
export function keepKey(value: string, spellings?: Spellings): void {
  for (const text of [value.trim(), ...value.trim().split(/\s+/)]) keepSecret(text, spellings);
}

/** The lines of a private key in PEM, without the one that names its kind. */
export function keepPrivateKey(pem: string): void {
  for (const line of pem.split(/\s*\n\s*|\\n/)) if (!line.includes('-----')) keepSecret(line.trim(), 'literal');
}

/** Variables of other programs may hold passwords such as `temporal`, which would be masked in plain words. */
function isAddress(name: string): boolean {
  return /^(?:AGENT_JOBS|TEMPORAL)_(?:\w+_)?(?:ADDRESS|ENDPOINT|URL)$|_proxy$/i.test(name);
}

function keepCredentials(text: string): void {
  for (const spelling of new Set([text, decoded(text)])) {
    keepSecret(spelling, 'literal');
    keepKey(spelling.slice(spelling.indexOf(':') + 1), 'literal');
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
