/**
 * A data converter that encrypts everything that workflows are given, keep and return: for `FOLLOW_UP_DATA_CONVERTER`.
 *
 * `ENCRYPTION_KEYS_FILE` is the path of a JSON file, `{ "current": "2026-11", "keys": { "2026-11": "<32 bytes, base64>" } }`.
 * It is read again when it changes. To rotate a key, first add the new one everywhere, then make it the current one. Keep
 * an old key as long as the namespace retains workflows that were encrypted with it.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
// CommonJS, of which Node finds no named exports.
import proto from '@temporalio/proto';

const { Payload } = proto.temporal.api.common.v1;
const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** What Temporal's samples in other languages write, too. */
const ENCODING = 'binary/encrypted';
const KEY_ID = 'encryption-key-id';

/** Encrypts payloads with AES-256-GCM; each says which key it needs. */
class AesGcmCodec {
  #path;
  #changedMs;
  #keys;

  constructor(path) {
    this.#path = path;
  }

  async encode(payloads) {
    const { current, keys } = this.#read();
    return payloads.map((payload) => {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, keys.get(current), nonce, { authTagLength: TAG_BYTES });
      const data = [cipher.update(Payload.encode(payload).finish()), cipher.final()];
      return {
        metadata: { encoding: Buffer.from(ENCODING), [KEY_ID]: Buffer.from(current) },
        data: Buffer.concat([nonce, ...data, cipher.getAuthTag()]),
      };
    });
  }

  async decode(payloads) {
    return payloads.map((payload) => {
      // What was written before encryption was turned on stays readable.
      if (Buffer.from(payload.metadata?.encoding ?? []).toString() !== ENCODING) return payload;
      const id = Buffer.from(payload.metadata[KEY_ID] ?? []).toString();
      const key = this.#read().keys.get(id);
      if (key === undefined) throw new Error(`${this.#path} has no key ${JSON.stringify(id)}`);
      const data = Buffer.from(payload.data);
      const decipher = createDecipheriv(CIPHER, key, data.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
      decipher.setAuthTag(data.subarray(-TAG_BYTES));
      return Payload.decode(Buffer.concat([decipher.update(data.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]));
    });
  }

  #read() {
    const { mtimeMs } = statSync(this.#path);
    if (mtimeMs === this.#changedMs) return this.#keys;
    const { current, keys: texts } = JSON.parse(readFileSync(this.#path, 'utf8'));
    const keys = new Map(Object.entries(texts).map(([id, text]) => [id, Buffer.from(text, 'base64')]));
    for (const [id, key] of keys) {
      if (key.length !== KEY_BYTES) throw new Error(`${this.#path}: key ${id} must be ${KEY_BYTES} bytes in base64`);
    }
    if (!keys.has(current)) throw new Error(`${this.#path} has no key ${JSON.stringify(current)}, the current one`);
    this.#changedMs = mtimeMs;
    this.#keys = { current, keys };
    return this.#keys;
  }
}

const path = process.env.ENCRYPTION_KEYS_FILE;
if (!path) throw new Error('set ENCRYPTION_KEYS_FILE to the path of the file with the keys');

export const dataConverter = {
  payloadCodecs: [new AesGcmCodec(path)],
  // Moves messages and stack traces of failures to where the codec encrypts them.
  failureConverterPath: fileURLToPath(new URL('./failure-converter.js', import.meta.url)),
};
