import { BlockList, isIP } from 'node:net';

/** The rule that a base URL breaks, if any. Does not repeat the value, which may hold a password. */
export function baseUrlIssue(value: string): string | undefined {
  if (!URL.canParse(value)) return 'must be a URL such as "https://api.example.com"';
  const url = new URL(value);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must start with https:// or http://';
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or a password';
  if (value.includes('?')) return 'must not have a query (?...)';
  if (value.includes('#')) return 'must not have a fragment (#...)';
  return undefined;
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** Whether a host is this machine without asking a name server. IPv6 may have brackets. */
export function isLoopbackHost(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '');
  const version = isIP(bare);
  if (version === 0) return bare.toLowerCase() === 'localhost';
  return loopback.check(bare, version === 4 ? 'ipv4' : 'ipv6');
}
