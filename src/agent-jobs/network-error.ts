import { DeadlineError } from './answer.js';
import { cleanLine, type Mask } from './service-text.js';

/** An error of the network or of undici in words that may be shown: nothing but its code and its cleaned message. */
export interface DescribedError {
  kind: 'timeout' | 'too-big' | 'network';
  text: string;
}

const TIMEOUT_CODES: ReadonlySet<string> = new Set(['CONNECT_TIMEOUT', 'UND_ERR_CONNECT_TIMEOUT', 'ETIMEDOUT']);

/** What to look at, for the errors that somebody can mend. */
const HINTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there; check AGENT_JOBS_BASE_URL and that the service is up',
  ENOTFOUND: 'the host name is not known; check AGENT_JOBS_BASE_URL and DNS',
  EAI_AGAIN: 'DNS did not answer',
  DEPTH_ZERO_SELF_SIGNED_CERT:
    'its certificate is signed by nobody this host trusts; NODE_EXTRA_CA_CERTS adds an authority',
  SELF_SIGNED_CERT_IN_CHAIN:
    'its certificate is signed by nobody this host trusts; NODE_EXTRA_CA_CERTS adds an authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    'its certificate is signed by nobody this host trusts; NODE_EXTRA_CA_CERTS adds an authority',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host name; check AGENT_JOBS_BASE_URL',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS there; check the scheme and port of AGENT_JOBS_BASE_URL',
  UND_ERR_HEADERS_OVERFLOW: "the answer's headers are too long",
};

/**
 * Describes an error by an allowlist. The error itself must go nowhere: undici's hold the request's headers, and with
 * them the key, in the things they refer to.
 */
export function describeNetworkError(error: unknown, mask: Mask): DescribedError {
  if (error instanceof DeadlineError) return { kind: 'timeout', text: error.message };
  if (!(error instanceof Error)) return { kind: 'network', text: 'unknown error' };
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return { kind: 'too-big', text: 'the body is too long' };
  const hint = code === undefined ? undefined : HINTS[code];
  // OpenSSL's own messages are addresses and source lines.
  const message = code?.startsWith('ERR_SSL_') ? 'TLS failed' : error.message || error.name;
  const name = code === undefined || message.includes(code) ? '' : ` (${code})`;
  const text = cleanLine(`${message}${name}${hint === undefined ? '' : `: ${hint}`}`, mask);
  return { kind: code !== undefined && TIMEOUT_CODES.has(code) ? 'timeout' : 'network', text };
}
