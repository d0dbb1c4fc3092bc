import { expect, test } from 'vitest';
import { DataConverterError, dataConverterPlugin } from '../../src/temporal/data-converter.js';

test("an error of a user's codec names the data converter, and what it could not do", async () => {
  const keyError = new Error('no key 2026-11');
  const codec = { encode: async () => [{ data: new Uint8Array() }], decode: () => Promise.reject(keyError) };
  for (const hook of ['configureClient', 'configureWorker'] as const) {
    const configure = dataConverterPlugin({ payloadCodecs: [codec] })[hook] as (options: object) => {
      dataConverter: { payloadCodecs: (typeof codec)[] };
    };
    const [wrapped] = configure({}).dataConverter.payloadCodecs;
    expect(await wrapped?.encode()).toHaveLength(1);
    const failure = wrapped?.decode();
    await expect(failure).rejects.toBeInstanceOf(DataConverterError);
    await expect(failure).rejects.toMatchObject({
      message: 'the data converter cannot decode a payload: no key 2026-11',
      cause: keyError,
    });
  }
});
