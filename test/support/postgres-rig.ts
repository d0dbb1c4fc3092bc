import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { z } from 'zod';
import { Connection, type ConnectionOptions } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import type { Environment } from '../../src/config/index.js';
import {
  childEnvironment,
  type OnProgress,
  type ServerProcess,
  startOnFreePorts,
  startServerProcess,
  waitUntilReady,
} from '../../src/dev-server/process.js';
import { createPostgres } from './postgres.js';
import { findFreePorts } from './programs.js';
import { resolveTemporalServer, type ServerAge, type TemporalServerBinaries } from './temporal-server-binaries.js';
import {
  dynamicConfig,
  temporalServerConfig,
  temporalServerPortNames,
  type TemporalServerPorts,
} from './temporal-server-config.js';

/** Settings of {@link startPostgresRig}. */
export interface PostgresRigOptions {
  env?: Environment;
  onProgress?: OnProgress;
  /** @default 'newest' */
  serverAge?: ServerAge;
  /** Directory for configuration, logs and data. @default a temporary one that `stop` removes */
  directory?: string;
  /** The first of twelve consecutive ports. It is the one for gRPC. @default free ports */
  basePort?: number;
  /** The share of persistence calls of each kind that the server makes fail, such as 0.01. @default 0 */
  faults?: number;
  /** Added to deploy/temporal-dynamic-config.yaml, such as `{ 'limit.historyCount.suggestContinueAsNew': 100 }`. */
  dynamicConfigValues?: Readonly<Record<string, unknown>>;
  /** @default 4 */
  historyShards?: number;
  /** Whether PostgreSQL flushes commits to the disk. @default false */
  fsync?: boolean;
  /** @default 'warn' */
  logLevel?: 'debug' | 'info' | 'warn' | 'error';
}

/**
 * A real Temporal server with all its roles on a real PostgreSQL, as in docker-compose.yml but without containers. It
 * ends with this process.
 */
export interface PostgresRig {
  /** `host:port` of gRPC. The namespace is `default`. */
  readonly address: string;
  /** Contains `server.log` and `postgres.log`. */
  readonly directory: string;
  readonly ports: TemporalServerPorts;
  /** The directory with the tables of all databases. */
  readonly tableDirectory: string;
  /** The current main processes of the Temporal server and of PostgreSQL. */
  pids(): number[];
  /** See `stop` of Postgres. */
  stopPostgres(mode?: 'fast' | 'immediate'): Promise<void>;
  startPostgres(): Promise<void>;
  /** Kills the server with SIGKILL. Resolves when it has ended. */
  killServer(): Promise<void>;
  /** Starts the server on the same ports and waits until its namespace answers. Does nothing while it runs. */
  startServer(): Promise<void>;
  /** Such as `1.32.0`. */
  serverVersion(): Promise<string>;
  /** Stops the server cleanly, updates the schemas, and starts the newest server on the same ports. */
  upgradeServer(): Promise<void>;
  /** Runs deploy/setup-schema.sh once more, as a second `docker compose up` would. */
  setUpSchemas(): Promise<void>;
  stop(): Promise<void>;
}

const SCHEMA_SCRIPT = new URL('../../deploy/setup-schema.sh', import.meta.url);
const SHIPPED_DYNAMIC_CONFIG = new URL('../../deploy/temporal-dynamic-config.yaml', import.meta.url);
const NAMESPACE = 'default';
const RETENTION_MS = 86_400_000;
/** Short, so that a server that is starting is soon asked again. */
const CONNECT_TIMEOUT_MS = 2_000;
const READY_TIMEOUT_MS = 120_000;
const SCHEMA_TIMEOUT_MS = 180_000;

/** Starts the rig in a few seconds, after a first build of the server. Needs PostgreSQL, and Go for the build. */
export async function startPostgresRig(options: PostgresRigOptions = {}): Promise<PostgresRig> {
  const mayChooseAgain = options.basePort === undefined && options.directory === undefined;
  return mayChooseAgain ? startOnFreePorts(() => startRig(options)) : startRig(options);
}

async function startRig(options: PostgresRigOptions): Promise<PostgresRig> {
  const env = options.env ?? process.env;
  let binaries = await resolveTemporalServer(options.serverAge ?? 'newest', env, options.onProgress);
  const directory = options.directory ?? (await mkdtemp(join(tmpdir(), 'postgres-rig-')));
  const ports = await choosePorts(options.basePort);
  const configDirectory = join(directory, 'config');
  await mkdir(configDirectory, { recursive: true });
  const shipped = z.record(z.string(), z.unknown()).parse(parse(await readFile(SHIPPED_DYNAMIC_CONFIG, 'utf8')));
  const dynamicConfigPath = join(configDirectory, 'dynamic-config.yaml');
  const config = temporalServerConfig(ports, {
    dynamicConfigPath,
    faults: options.faults ?? 0,
    logLevel: options.logLevel ?? 'warn',
    historyShards: options.historyShards ?? 4,
  });
  await writeFile(join(configDirectory, 'rig.yaml'), JSON.stringify(config, undefined, 2));
  await writeFile(
    dynamicConfigPath,
    JSON.stringify({ ...shipped, ...dynamicConfig(options.dynamicConfigValues ?? {}) }, undefined, 2),
  );

  const postgres = await createPostgres(directory, ports.postgres, env, options.fsync ?? false);
  const address = `127.0.0.1:${ports.frontend}`;
  const reach: ConnectionOptions = { address, connectTimeout: CONNECT_TIMEOUT_MS };
  const log = createWriteStream(join(directory, 'server.log'), { flags: 'a' });
  let server: ServerProcess | undefined;

  const startServer = async () => {
    if (server !== undefined && !server.hasExited()) return;
    const args = ['--root', directory, '--config', 'config', '--env', 'rig', 'start'];
    const started = startServerProcess(binaries.server, args, {
      env: childEnvironment(env),
      cwd: directory,
      onOutput: (text) => log.write(text),
    });
    server = started;
    await waitUntilReady('Temporal server', started, READY_TIMEOUT_MS, () => ensureNamespace(reach));
  };

  const stop = async () => {
    await server?.stop();
    await postgres.stop('immediate');
    log.end();
    if (options.directory === undefined) await rm(directory, { recursive: true, force: true });
  };

  try {
    await postgres.start();
    await setUpSchemas(binaries, directory, ports.postgres, env);
    await startServer();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    address,
    directory,
    ports,
    tableDirectory: postgres.tableDirectory,
    pids: () => [...(server === undefined ? [] : [server.pid]), postgres.pid()],
    stopPostgres: (mode) => postgres.stop(mode),
    startPostgres: () => postgres.start(),
    killServer: async () => {
      await server?.kill('SIGKILL');
    },
    startServer,
    serverVersion: () =>
      onConnection(reach, async ({ workflowService }) => (await workflowService.getClusterInfo({})).serverVersion),
    upgradeServer: async () => {
      binaries = await resolveTemporalServer('newest', env, options.onProgress);
      await server?.stop();
      await setUpSchemas(binaries, directory, ports.postgres, env);
      await startServer();
    },
    setUpSchemas: () => setUpSchemas(binaries, directory, ports.postgres, env),
    stop,
  };
}

async function choosePorts(basePort: number | undefined): Promise<TemporalServerPorts> {
  const count = temporalServerPortNames.length;
  const chosen =
    basePort === undefined ? await findFreePorts(count) : Array.from({ length: count }, (_, index) => basePort + index);
  const ports = temporalServerPortNames.map((name, index) => [name, chosen[index]]);
  return Object.fromEntries(ports) as TemporalServerPorts;
}

/** Runs the script that docker-compose.yml runs. */
async function setUpSchemas(
  binaries: TemporalServerBinaries,
  directory: string,
  port: number,
  env: Environment,
): Promise<void> {
  const toolDirectory = join(directory, 'bin');
  await mkdir(toolDirectory, { recursive: true });
  const tool = join(toolDirectory, 'temporal-sql-tool');
  await rm(tool, { force: true });
  await symlink(binaries.sqlTool, tool);
  await promisify(execFile)('/bin/sh', [fileURLToPath(SCHEMA_SCRIPT)], {
    env: {
      ...childEnvironment(env),
      PATH: `${toolDirectory}${delimiter}${env['PATH'] ?? ''}`,
      SQL_PLUGIN: 'postgres12',
      SQL_HOST: '127.0.0.1',
      SQL_PORT: String(port),
      SQL_USER: 'temporal',
      SQL_PASSWORD: 'temporal',
      SCHEMA_DIRECTORY: binaries.schemaDirectory,
    },
    timeout: SCHEMA_TIMEOUT_MS,
  });
}

/** Registers the namespace if it is missing. It is ready once workflows can be listed. */
function ensureNamespace(reach: ConnectionOptions): Promise<boolean> {
  return onConnection(reach, async ({ workflowService }) => {
    const { namespaces } = await workflowService.listNamespaces({});
    if (!namespaces.some(({ namespaceInfo }) => namespaceInfo?.name === NAMESPACE)) {
      await workflowService.registerNamespace({
        namespace: NAMESPACE,
        workflowExecutionRetentionPeriod: msToTs(RETENTION_MS),
      });
    }
    await workflowService.listWorkflowExecutions({ namespace: NAMESPACE });
    return true;
  });
}

async function onConnection<T>(reach: ConnectionOptions, use: (connection: Connection) => Promise<T>): Promise<T> {
  const connection = await Connection.connect(reach);
  try {
    return await connection.withDeadline(Date.now() + 10_000, () => use(connection));
  } finally {
    await connection.close();
  }
}
