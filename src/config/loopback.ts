import { BlockList, isIP } from 'node:net';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/**
 * Whether a host is this machine itself, whatever a name server says: `localhost`, 127.0.0.0/8, `::1`.
 *
 * @param host a name or an address; IPv6 with or without brackets
 */
export function isLoopbackHost(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '');
  const version = isIP(bare);
  if (version === 0) return bare.toLowerCase() === 'localhost';
  return loopback.check(bare, version === 4 ? 'ipv4' : 'ipv6');
}
