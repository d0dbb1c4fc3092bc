/** Where the service lives: what every request is made from. */
export interface BaseUrl {
  /** Scheme, host and port, such as `https://api.example.com`. */
  origin: string;
  /** Path before `/v2`, without a slash at its end; empty for none. */
  pathPrefix: string;
}

/**
 * The rule that a base URL breaks, or `undefined` for a good one. The value itself is not repeated: it may hold a
 * password.
 */
export function baseUrlIssue(value: string): string | undefined {
  const url = toUrl(value);
  if (!url) return 'must be a URL such as "https://api.example.com"';
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must start with https:// or http://';
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or a password';
  if (value.includes('?')) return 'must not have a query (?...)';
  if (value.includes('#')) return 'must not have a fragment (#...)';
  return undefined;
}

/**
 * Takes a base URL apart. A path prefix is kept; a slash at the end makes no difference.
 *
 * @throws Error naming `baseUrl` and the rule of {@link baseUrlIssue} that is broken
 */
export function parseBaseUrl(value: string): BaseUrl {
  const issue = baseUrlIssue(value);
  const url = toUrl(value);
  if (issue !== undefined || !url) throw new Error(`baseUrl: ${issue ?? 'must be a URL'}`);
  return { origin: url.origin, pathPrefix: url.pathname.replace(/\/+$/, '') };
}

function toUrl(value: string): URL | undefined {
  return URL.canParse(value) ? new URL(value) : undefined;
}
