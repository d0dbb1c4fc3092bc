import { pathToFileURL } from 'node:url';
import type { ClientPlugin, ConnectionPlugin } from '@temporalio/client';
import type { DataConverter, PayloadCodec } from '@temporalio/common';
import type { BundlerPlugin, NativeConnectionPlugin, WorkerPlugin } from '@temporalio/worker';
import { z } from 'zod';
import { messageOf } from '../common/index.js';
import { ConfigError } from '../config/settings-reader.js';

export type TemporalPlugin = ConnectionPlugin & NativeConnectionPlugin & ClientPlugin & WorkerPlugin & BundlerPlugin;

const method = z.custom<() => unknown>((value) => typeof value === 'function');
const dataConverterSchema = z
  .object({
    payloadCodecs: z.array(z.object({ encode: method, decode: method })).optional(),
    payloadConverterPath: z.string().optional(),
    failureConverterPath: z.string().optional(),
  })
  .refine((parts) => Object.values(parts).some((part) => part !== undefined));

/**
 * Loads the data converter of `FOLLOW_UP_DATA_CONVERTER`: the module's export `dataConverter`, or its default export.
 *
 * @param modulePath absolute; `undefined`: Temporal's default
 * @throws ConfigError when the module can't be loaded, or exports no data converter
 */
export async function loadDataConverter(modulePath: string | undefined): Promise<DataConverter | undefined> {
  if (modulePath === undefined) return undefined;
  const refuse = (problem: string) =>
    new ConfigError([{ name: 'FOLLOW_UP_DATA_CONVERTER', message: `${modulePath} ${problem}` }]);
  type Exports = { dataConverter?: unknown; default?: unknown };
  let loaded: Exports;
  try {
    loaded = (await import(pathToFileURL(modulePath).href)) as Exports;
  } catch (error) {
    throw refuse(`can't be loaded: ${messageOf(error)}`);
  }
  // A CommonJS module's exports are its default export.
  const candidates = [loaded.dataConverter, (loaded.default as Exports | undefined)?.dataConverter, loaded.default];
  // The original, because codecs may be classes.
  const found = candidates.find((candidate) => dataConverterSchema.safeParse(candidate).success);
  if (found !== undefined) return found as DataConverter;
  throw refuse('must export dataConverter: an object with payloadCodecs, payloadConverterPath or failureConverterPath');
}

/** Thrown when a codec of the user's data converter fails, to distinguish it from an error of Temporal. */
export class DataConverterError extends Error {
  override readonly name = 'DataConverterError';
}

/** Applies a data converter to every client and worker of the connections that have this plugin. */
export function dataConverterPlugin(given: DataConverter): TemporalPlugin {
  const dataConverter = { ...given, ...(given.payloadCodecs && { payloadCodecs: given.payloadCodecs.map(named) }) };
  return {
    name: 'agent-follow-up.data-converter',
    configureClient: (options) => ({ ...options, dataConverter }),
    configureWorker: (options) => ({ ...options, dataConverter }),
  };
}

/** Names the data converter in its errors. @throws DataConverterError with the codec's own error as its cause */
function named(codec: PayloadCodec): PayloadCodec {
  const run = async (call: 'encode' | 'decode', ...args: Parameters<PayloadCodec['encode']>) => {
    try {
      return await codec[call](...args);
    } catch (error) {
      const reason = messageOf(error);
      throw new DataConverterError(`the data converter cannot ${call} a payload: ${reason}`, { cause: error });
    }
  };
  return { encode: (...args) => run('encode', ...args), decode: (...args) => run('decode', ...args) };
}
