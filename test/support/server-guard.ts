import { execFileSync } from 'node:child_process';
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { mkdtempSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ServerGuard } from './temporal-server-config.js';

/** Certificates of one authority and tokens of one key: what a Temporal server may be told to trust. */
export class Issuer {
  readonly #directory = mkdtempSync(join(tmpdir(), 'issuer-'));
  readonly #keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });

  constructor(readonly name: string) {
    this.#openssl('authority', ['-addext', 'keyUsage=critical,keyCertSign']);
  }

  /** The authority's own certificate, as PEM. */
  get authority(): string {
    return readFileSync(join(this.#directory, 'authority.crt'), 'utf8');
  }

  /** A certificate with its key, as PEM, for a client or for a server on loopback. */
  certificate(): { certificate: string; key: string } {
    const path = (name: string) => join(this.#directory, name);
    const authority = ['-CA', path('authority.crt'), '-CAkey', path('authority.key')];
    const extensions = ['basicConstraints=critical,CA:FALSE', 'subjectAltName=IP:127.0.0.1'];
    this.#openssl('leaf', [...authority, ...extensions.flatMap((each) => ['-addext', each])]);
    return { certificate: readFileSync(path('leaf.crt'), 'utf8'), key: readFileSync(path('leaf.key'), 'utf8') };
  }

  /** The public key of its tokens, as a JSON Web Key. */
  get publicKey(): unknown {
    return { ...this.#keys.publicKey.export({ format: 'jwk' }), kid: this.name, alg: 'ES256', use: 'sig' };
  }

  /** A token that allows everything for an hour: what Temporal calls an API key. */
  token(): string {
    const exp = Math.floor(Date.now() / 1_000) + 3_600;
    const parts = [
      { alg: 'ES256', typ: 'JWT', kid: this.name },
      { sub: 'worker', permissions: ['temporal-system:admin'], exp },
    ];
    const signed = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
    return `${signed}.${signature(signed, this.#keys.privateKey)}`;
  }

  #openssl(name: string, args: string[]): void {
    const path = (ending: string) => join(this.#directory, `${name}.${ending}`);
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', path('key')];
    const certificate = ['-x509', '-days', '2', '-subj', `/CN=${this.name} ${name}`, '-out', path('crt')];
    execFileSync('openssl', ['req', ...certificate, ...key, ...args], { stdio: 'pipe' });
  }
}

function signature(text: string, key: KeyObject): string {
  return sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url');
}

/** Files that a guarded server watches. */
export interface GuardFiles {
  /** For the server's configuration. */
  guard: ServerGuard;
  /** From now on, the server shows a certificate of `issuer`, and accepts what any of `trusted` has issued. */
  trust(issuer: Issuer, trusted: readonly Issuer[]): void;
}

/** A guard that asks for a client certificate and for a token, and looks at its files every second. */
export function makeGuard(directory: string): GuardFiles {
  const path = (name: string) => join(directory, name);
  return {
    guard: {
      tls: {
        refreshInterval: '1s',
        frontend: {
          server: {
            certFile: path('server.crt'),
            keyFile: path('server.key'),
            requireClientAuth: true,
            clientCaFiles: [path('clients.crt')],
          },
        },
      },
      authorization: {
        jwtKeyProvider: { keySourceURIs: [`file://${path('keys.json')}`], refreshInterval: '1s' },
        permissionsClaimName: 'permissions',
        authorizer: 'default',
        claimMapper: 'default',
      },
    },
    trust(issuer, trusted) {
      const { certificate, key } = issuer.certificate();
      replaceFile(path('server.crt'), certificate);
      replaceFile(path('server.key'), key);
      replaceFile(path('clients.crt'), trusted.map(({ authority }) => authority).join(''));
      replaceFile(path('keys.json'), JSON.stringify({ keys: trusted.map(({ publicKey }) => publicKey) }));
    },
  };
}

/** Replaces a file in one step, as whoever rotates credentials should. */
export function replaceFile(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
