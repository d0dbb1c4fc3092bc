import dns, { type LookupAddress, type LookupAllOptions } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { setTimeout } from 'node:timers/promises';

type Find = (name: string, options: LookupAllOptions) => Promise<LookupAddress[]>;

/** A lookup that takes longer waits for a name server that does not answer, its own or that of a name before it. */
const PATIENCE_MS = 1_000;

/**
 * Finds addresses of names one at a time, each only once for all who ask meanwhile. Node.js looks up two names at a time
 * in a process, so name servers that do not answer would otherwise delay the connections for messages and polls. A name
 * that waits too long asks its name server without `find`.
 *
 * @param find occupies a thread until it is done
 * @param ask occupies none, but knows neither the hosts file nor search domains
 */
export function createSerialLookup(find: Find = dns.promises.lookup, ask = askNameServer): LookupFunction {
  const underWay = new Map<string, Promise<LookupAddress[]>>();
  let last: Promise<unknown> = Promise.resolve();

  function start(name: string, options: LookupAllOptions): Promise<LookupAddress[]> {
    const inTurn = last.then(() => find(name, options));
    last = inTurn.catch(() => undefined).finally(() => underWay.delete(name));
    const isLate = setTimeout(PATIENCE_MS, undefined, { ref: false }).then(() => underWay.has(name));
    const asked = isLate.then((isLate) => (isLate ? ask(name) : inTurn)).catch(() => inTurn);
    const found = Promise.race([inTurn, asked]);
    underWay.set(name, found);
    return found;
  }

  return (name, options, done) => {
    const found = underWay.get(name) ?? start(name, { ...options, all: true });
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

async function askNameServer(name: string): Promise<LookupAddress[]> {
  const addresses = await dns.promises.resolve4(name).catch(() => dns.promises.resolve6(name));
  return addresses.map((address) => ({ address, family: isIP(address) }));
}
