import { z } from 'zod';
import { isLoopbackHost } from '../agent-jobs/base-url.js';
import { targetNameSchema } from '../contract/index.js';
import { watchFile } from '../node/text-file.js';
import { keepSecret } from '../secrets/secrets.js';

/** Where a webhook goes. */
export interface WebhookTarget {
  url: URL;
  /** Keys of the signatures, two while one is replaced. */
  secrets: readonly Buffer[];
}

export type WebhookTargets = ReadonlyMap<string, WebhookTarget>;

/** Follows "must hold". */
export const TARGETS_RULE = 'JSON, { "name": { "url": "https://…", "secrets": ["whsec_…"] } }';

const SECRET_RULE = 'must be whsec_ and 24 to 64 bytes in base64';
const secretSchema = z
  .string()
  .regex(/^whsec_[A-Za-z0-9+/]+={0,2}$/, SECRET_RULE)
  .transform((text) => Buffer.from(text.slice('whsec_'.length), 'base64'))
  .refine(({ length }) => length >= 24 && length <= 64, SECRET_RULE);

const urlRule = 'must be a URL with https, or http on loopback, without user name, password and fragment';
const urlSchema = z
  .string()
  .refine((text) => URL.canParse(text), urlRule)
  .transform((text) => new URL(text))
  .refine(({ protocol, hostname, username, password, hash }) => {
    const isSafe = protocol === 'https:' || (protocol === 'http:' && isLoopbackHost(hostname));
    return isSafe && `${username}${password}${hash}` === '';
  }, urlRule);

const targetsSchema = z.record(
  targetNameSchema,
  z.strictObject({ url: urlSchema, secrets: z.array(secretSchema).min(1).max(2) }),
);

/**
 * Parses the webhook targets of a worker. From now on the secrets are masked, even if one is refused.
 *
 * @throws Error that names targets and rules, never a value
 */
export function parseTargets(text: string): WebhookTargets {
  for (const [secret] of text.matchAll(/whsec_[^"'\s]+/g)) keepSecret(secret, 'literal');
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new Error(`must hold ${TARGETS_RULE}`);
  }
  const parsed = targetsSchema.safeParse(json);
  if (parsed.success) return new Map(Object.entries(parsed.data));
  const issues = parsed.error.issues.map(({ path, code, message }) => {
    // A wrong name may be a URL or a secret.
    if (code === 'invalid_key') return 'a name is not 1 to 64 letters, digits, _ or -';
    if (path.length === 0) return `must hold ${TARGETS_RULE}`;
    return `${path.join('.')}: ${code === 'unrecognized_keys' ? 'has only the fields url and secrets' : message}`;
  });
  throw new Error(issues.join('; '));
}

/**
 * The targets of the settings. A file is read again at the first use after a change.
 *
 * @returns a function that throws until the file has been valid once
 */
export function openTargets(
  { targets, file }: { targets: (() => WebhookTargets) | undefined; file: string | undefined },
  onProblem: (file: string, problem: string | undefined) => void,
): () => Promise<WebhookTargets> {
  if (file === undefined) return () => Promise.resolve(targets?.() ?? new Map());
  const watched = watchFile(file, parseTargets, { onProblem });
  return async () => {
    const { content, problem } = await watched();
    if (!content) throw new Error(problem);
    return content;
  };
}
