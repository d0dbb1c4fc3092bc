import { pathToFileURL } from 'node:url';
import type { ClientPlugin, ConnectionPlugin } from '@temporalio/client';
import type { DataConverter, PayloadCodec } from '@temporalio/common';
import type { BundlerPlugin, NativeConnectionPlugin, WorkerPlugin } from '@temporalio/worker';
import { ConfigError } from '../config/settings-reader.js';

/** A plugin of Temporal's SDK, with any of the hooks that it may have. */
export type TemporalPlugin = ConnectionPlugin & NativeConnectionPlugin & ClientPlugin & WorkerPlugin & BundlerPlugin;

/** Name of the setting. */
export const DATA_CONVERTER_SETTING = 'FOLLOW_UP_DATA_CONVERTER';

/**
 * Loads the data converter that `FOLLOW_UP_DATA_CONVERTER` names: what a module exports as `dataConverter` or by
 * default.
 *
 * @param modulePath absolute; `undefined`: Temporal's default
 * @throws ConfigError when the module can't be loaded, or exports no data converter
 */
export async function loadDataConverter(modulePath: string | undefined): Promise<DataConverter | undefined> {
  if (modulePath === undefined) return undefined;
  const refuse = (message: string) => new ConfigError([{ name: DATA_CONVERTER_SETTING, message }]);
  let loaded: { dataConverter?: unknown; default?: unknown };
  try {
    loaded = (await import(pathToFileURL(modulePath).href)) as typeof loaded;
  } catch (error) {
    throw refuse(`${modulePath} can't be loaded: ${error instanceof Error ? error.message : String(error)}`);
  }
  // What a CommonJS module exports is its default export.
  const candidates = [
    loaded.dataConverter,
    (loaded.default as typeof loaded | undefined)?.dataConverter,
    loaded.default,
  ];
  const dataConverter = candidates.find(isDataConverter);
  if (dataConverter !== undefined) return dataConverter;
  throw refuse(
    `${modulePath} must export dataConverter: an object with payloadCodecs, payloadConverterPath or failureConverterPath`,
  );
}

function isDataConverter(value: unknown): value is DataConverter {
  if (typeof value !== 'object' || value === null) return false;
  const { payloadCodecs, payloadConverterPath, failureConverterPath } = value as Record<string, unknown>;
  const paths = [payloadConverterPath, failureConverterPath].filter((path) => path !== undefined);
  if (payloadCodecs === undefined && paths.length === 0) return false;
  return paths.every((path) => typeof path === 'string') && (payloadCodecs === undefined || areCodecs(payloadCodecs));
}

function areCodecs(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.every((codec: { encode?: unknown; decode?: unknown } | null) =>
      [codec?.encode, codec?.decode].every((method) => typeof method === 'function'),
    )
  );
}

/** Thrown when a codec of the user's data converter fails, so that nobody takes it for a fault of Temporal. */
export class DataConverterError extends Error {
  override readonly name = 'DataConverterError';
}

/** Gives a data converter to every client and worker of the connections that have this plugin. */
export function dataConverterPlugin(given: DataConverter): TemporalPlugin {
  const dataConverter = { ...given, ...(given.payloadCodecs && { payloadCodecs: given.payloadCodecs.map(named) }) };
  return {
    name: 'agent-follow-up.data-converter',
    configureClient: (options) => ({ ...options, dataConverter }),
    configureWorker: (options) => ({ ...options, dataConverter }),
  };
}

/** @throws DataConverterError that has the codec's own error as its cause */
function named(codec: PayloadCodec): PayloadCodec {
  const run = async (call: 'encode' | 'decode', ...args: Parameters<PayloadCodec['encode']>) => {
    try {
      return await codec[call](...args);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new DataConverterError(`the data converter cannot ${call} a payload: ${reason}`, { cause: error });
    }
  };
  return { encode: (...args) => run('encode', ...args), decode: (...args) => run('decode', ...args) };
}
