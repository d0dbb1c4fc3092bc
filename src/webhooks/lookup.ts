import dns, { type LookupAddress, type LookupAllOptions } from 'node:dns';
import type { LookupFunction } from 'node:net';

/**
 * Finds addresses of names one at a time, each only once for all who ask meanwhile. Node.js looks up two names at a time
 * in a process, so a name server that does not answer would otherwise delay the connections for messages and polls.
 */
export function createSerialLookup(
  find: (name: string, options: LookupAllOptions) => Promise<LookupAddress[]> = dns.promises.lookup,
): LookupFunction {
  const underWay = new Map<string, Promise<LookupAddress[]>>();
  let last: Promise<unknown> = Promise.resolve();
  return (name, options, done) => {
    const found = underWay.get(name) ?? last.then(() => find(name, { ...options, all: true }));
    if (!underWay.has(name)) {
      underWay.set(name, found);
      last = found.catch(() => undefined).finally(() => underWay.delete(name));
    }
    found.then(
      (addresses) => {
        const [first] = addresses;
        if (options.all || !first) done(null, addresses);
        else done(null, first.address, first.family);
      },
      (error: unknown) => done(error as NodeJS.ErrnoException, []),
    );
  };
}
