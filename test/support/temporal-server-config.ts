/** The names of {@link TemporalServerPorts}, in the order in which ports are assigned. */
export const temporalServerPortNames = [
  ...(['frontend', 'frontendMembership', 'frontendHttp', 'matching', 'matchingMembership', 'history'] as const),
  ...(['historyMembership', 'worker', 'workerMembership', 'pprof', 'metrics', 'postgres'] as const),
];

/** The ports of one Temporal server process with all roles on 127.0.0.1. */
export type TemporalServerPorts = Record<(typeof temporalServerPortNames)[number], number>;

const HOST = '127.0.0.1';

/** Calls of the execution store that may fail. Writes may also fail after they took effect. */
const READS = ['GetWorkflowExecution', 'GetCurrentExecution', 'ReadHistoryBranch'];
const WRITES = ['CreateWorkflowExecution', 'UpdateWorkflowExecution', 'AppendHistoryNodes'];

/**
 * The configuration of a Temporal server on PostgreSQL. It is written as JSON, which is also YAML.
 *
 * @param options.faults share of persistence calls of each kind that fail by the server's own fault injection; 0 for none
 */
export function temporalServerConfig(
  ports: TemporalServerPorts,
  options: { dynamicConfigPath: string; faults: number },
): unknown {
  const sql = (databaseName: string, maxConns: number) => ({
    ...{ pluginName: 'postgres12', databaseName, user: 'temporal', password: 'temporal' },
    ...{ connectAddr: `${HOST}:${ports.postgres}`, connectProtocol: 'tcp' },
    ...{ maxConns, maxIdleConns: maxConns, maxConnLifetime: '1h' },
  });
  const rpc = (grpcPort: number, membershipPort: number) => ({ grpcPort, membershipPort, bindOnLocalHost: true });
  const noArchival = { state: 'disabled', enableRead: false };
  return {
    log: { stdout: true, level: 'warn' },
    persistence: {
      defaultStore: 'postgres-default',
      visibilityStore: 'postgres-visibility',
      numHistoryShards: 4,
      datastores: {
        'postgres-default': {
          sql: sql('temporal', 20),
          ...(options.faults > 0 ? { faultInjection: faultInjection(options.faults) } : {}),
        },
        'postgres-visibility': { sql: sql('temporal_visibility', 10) },
      },
    },
    global: {
      membership: { maxJoinDuration: '30s', broadcastAddress: HOST },
      pprof: { port: ports.pprof },
      metrics: {
        prometheus: { framework: 'tally', timerType: 'histogram', listenAddress: `${HOST}:${ports.metrics}` },
      },
    },
    services: {
      frontend: { rpc: { ...rpc(ports.frontend, ports.frontendMembership), httpPort: ports.frontendHttp } },
      matching: { rpc: rpc(ports.matching, ports.matchingMembership) },
      history: { rpc: rpc(ports.history, ports.historyMembership) },
      worker: { rpc: rpc(ports.worker, ports.workerMembership) },
    },
    clusterMetadata: {
      ...{ enableGlobalNamespace: false, failoverVersionIncrement: 10 },
      ...{ masterClusterName: 'active', currentClusterName: 'active' },
      clusterInformation: {
        active: {
          enabled: true,
          initialFailoverVersion: 1,
          rpcName: 'frontend',
          rpcAddress: `${HOST}:${ports.frontend}`,
        },
      },
    },
    dcRedirectionPolicy: { policy: 'noop' },
    archival: { history: noArchival, visibility: noArchival },
    namespaceDefaults: { archival: { history: { state: 'disabled' }, visibility: { state: 'disabled' } } },
    dynamicConfigClient: { filepath: options.dynamicConfigPath, pollInterval: '10s' },
  };
}

function faultInjection(rate: number): unknown {
  const method = (kinds: readonly string[]) => ({ errors: Object.fromEntries(kinds.map((kind) => [kind, rate])) });
  const methods = Object.fromEntries([
    ...READS.map((name) => [name, method(['ResourceExhausted', 'Timeout'])]),
    ...WRITES.map((name) => [name, method(['ResourceExhausted', 'Timeout', 'ExecuteAndTimeout'])]),
  ]);
  return { targets: { dataStores: { ExecutionStore: { methods } } } };
}
