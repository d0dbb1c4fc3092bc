import { setTimeout as delay } from 'node:timers/promises';
import type { Environment } from '../config/settings-reader.js';
import type { TemporalPlugin } from './data-converter.js';

/** Tracing that is on. */
export interface Tracing {
  /** Makes spans of the calls of clients, of workflows and of activities. */
  plugin: TemporalPlugin;
  /** Exports what is left. */
  close(): Promise<void>;
}

/** Name that spans have unless `OTEL_SERVICE_NAME` is set. */
const SERVICE_NAME = 'agent-follow-up';

/** How long a process that ends waits for the last spans to be exported. */
const CLOSE_TIMEOUT_MS = 5_000;

/**
 * Turns tracing on where OpenTelemetry's usual variables name an endpoint. Everything else that they say holds, too:
 * they are read by OpenTelemetry's SDK.
 *
 * @param env decides only whether tracing is on
 * @returns `undefined` where it is off
 */
export async function startTracing(env: Environment): Promise<Tracing | undefined> {
  if (!isAskedFor(env)) return undefined;
  // The packages take a while to load: only who traces pays for it.
  const [sdk, { OTLPTraceExporter }, { detectResourcesSync, envDetectorSync, Resource }, temporal] = await Promise.all([
    import('@opentelemetry/sdk-trace-node'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
    import('@temporalio/interceptors-opentelemetry'),
  ]);
  const { attributes } = detectResourcesSync({ detectors: [envDetectorSync] });
  const resource = new Resource({ 'service.name': SERVICE_NAME, ...attributes });
  const spanProcessor = new sdk.BatchSpanProcessor(new OTLPTraceExporter());
  const provider = new sdk.NodeTracerProvider({ resource, spanProcessors: [spanProcessor] });
  provider.register();
  return {
    plugin: new temporal.OpenTelemetryPlugin({ resource, spanProcessor }),
    // A collector that is away must not keep the process.
    close: () =>
      Promise.race([provider.shutdown().catch(() => undefined), delay(CLOSE_TIMEOUT_MS, undefined, { ref: false })]),
  };
}

function isAskedFor(env: Environment): boolean {
  const { OTEL_SDK_DISABLED: disabled, OTEL_TRACES_EXPORTER: exporter } = env;
  if (disabled?.toLowerCase() === 'true' || (exporter || 'otlp') !== 'otlp') return false;
  return Boolean(env['OTEL_EXPORTER_OTLP_ENDPOINT'] || env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT']);
}
