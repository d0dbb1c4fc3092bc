import { readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { readRepositoryFile } from './compose-file.js';

const NAME = /\b(?:AGENT_JOBS|FOLLOW_UP|TEMPORAL)_(?:[A-Z]+_)*[A-Z]+\b/g;

/** Packages that read the environment when a worker traces; `readdir` finds their sources. */
const tracingSources = [
  'node_modules/@opentelemetry/sdk-trace-base/build/src',
  'node_modules/@opentelemetry/otlp-exporter-base/build/src/configuration',
  'node_modules/@opentelemetry/resources/build/src',
  'src/temporal',
];

/**
 * The names of OpenTelemetry's variables that a worker reads. A variable of an exporter exists twice: for all signals, and
 * for traces only.
 */
export async function tracingSettings(): Promise<Set<string>> {
  const files = await Promise.all(
    tracingSources.map(async (folder) => {
      const names = await readdir(fileURLToPath(new URL(`../../${folder}`, import.meta.url)), { recursive: true });
      return names.filter((name) => /\.[jt]s$/.test(name)).map((name) => `${folder}/${name}`);
    }),
  );
  const texts = await Promise.all(files.flat().map(readRepositoryFile));
  const names = texts.flatMap((text) => text.match(/\bOTEL_(?:[A-Z]+_)*[A-Z]+\b/g) ?? []);
  const forTraces = names.map((name) => name.replace(/^OTEL_EXPORTER_OTLP_(?!TRACES_)/, 'OTEL_EXPORTER_OTLP_TRACES_'));
  return new Set([...names, ...forTraces]);
}

/** The names of all settings that a worker reads, in its configuration and in Temporal's own library. */
export async function knownSettings(): Promise<Set<string>> {
  const folder = async (path: string, ending: string) => {
    const names = await readdir(fileURLToPath(new URL(`../../${path}`, import.meta.url)));
    return names.filter((name) => name.endsWith(ending)).map((name) => `${path}/${name}`);
  };
  const sources = [
    ...(await folder('src/config', '.ts')),
    ...(await folder('node_modules/@temporalio/envconfig/lib', '.js')),
  ];
  const texts = await Promise.all(sources.map(readRepositoryFile));
  return new Set(texts.flatMap((text) => text.match(NAME) ?? []));
}
