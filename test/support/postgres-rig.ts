import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { parse } from 'yaml';
import {
  childEnvironment,
  type ServerProcess,
  startOnFreePorts,
  startServerProcess,
  waitUntilReady,
} from '../../src/dev-server/process.js';
import { createPostgres } from './postgres.js';
import { findFreePorts } from './programs.js';
import { resolveTemporalServer, type ServerAge, type TemporalServerBinaries } from './temporal-server-binaries.js';
import { temporalServerConfig, temporalServerPortNames, type TemporalServerPorts } from './temporal-server-config.js';

/** Settings of {@link startPostgresRig}. */
export interface PostgresRigOptions {
  /** @default 'newest' */
  serverAge?: ServerAge;
  /** The share of persistence calls of each kind that the server makes fail, such as 0.01. @default 0 */
  faults?: number;
  /** Settings of the server beyond those of deploy/temporal-dynamic-config.yaml. */
  dynamicConfig?: Record<string, boolean | number>;
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
  /** See `stop` of Postgres. */
  stopPostgres(mode: 'fast' | 'immediate'): Promise<void>;
  startPostgres(): Promise<void>;
  /** Kills the server with SIGKILL. Resolves when it has ended. */
  killServer(): Promise<void>;
  /** Starts the server on the same ports and waits until its namespace answers. Does nothing while it runs. */
  startServer(): Promise<void>;
  /** Stops the server cleanly, updates the schemas, and starts the newest server on the same ports. */
  upgradeServer(): Promise<void>;
  /** Runs deploy/setup-schema.sh once more, as a second `docker compose up` would. */
  setUpSchemas(): Promise<void>;
  stop(): Promise<void>;
}

const SCHEMA_SCRIPT = fileURLToPath(new URL('../../deploy/setup-schema.sh', import.meta.url));
const SHIPPED_DYNAMIC_CONFIG = new URL('../../deploy/temporal-dynamic-config.yaml', import.meta.url);
const NAMESPACE = 'default';
const RETENTION_MS = 86_400_000;
/** Short, so that a server that is starting is soon asked again. */
const CONNECT_TIMEOUT_MS = 2_000;
const READY_TIMEOUT_MS = 120_000;
const SCHEMA_TIMEOUT_MS = 180_000;

/** Starts the rig in a few seconds, after a first build of the server. Needs PostgreSQL, and Go for the build. */
export function startPostgresRig(options: PostgresRigOptions = {}): Promise<PostgresRig> {
  return startOnFreePorts(() => startRig(options));
}

async function startRig({
  serverAge = 'newest',
  faults = 0,
  dynamicConfig = {},
}: PostgresRigOptions): Promise<PostgresRig> {
  let binaries = await resolveTemporalServer(serverAge);
  const directory = await mkdtemp(join(tmpdir(), 'postgres-rig-'));
  const free = await findFreePorts(temporalServerPortNames.length);
  const named = temporalServerPortNames.map((name, index) => [name, free[index]]);
  const ports = Object.fromEntries(named) as TemporalServerPorts;
  await mkdir(join(directory, 'config'));
  const dynamicConfigPath = join(directory, 'config', 'dynamic-config.yaml');
  const shipped = parse(await readFile(SHIPPED_DYNAMIC_CONFIG, 'utf8')) as object;
  const more = Object.entries(dynamicConfig).map(([name, value]) => [name, [{ value }]]);
  // JSON is YAML.
  await writeFile(dynamicConfigPath, JSON.stringify({ ...shipped, ...Object.fromEntries(more) }));
  const config = temporalServerConfig(ports, { dynamicConfigPath, faults });
  await writeFile(join(directory, 'config', 'rig.yaml'), JSON.stringify(config));

  const postgres = await createPostgres(directory, ports.postgres);
  const address = `127.0.0.1:${ports.frontend}`;
  const log = createWriteStream(join(directory, 'server.log'), { flags: 'a' });
  let server: ServerProcess | undefined;

  const startServer = async () => {
    if (server !== undefined && !server.hasExited()) return;
    const args = ['--root', directory, '--config', 'config', '--env', 'rig', 'start'];
    const env = childEnvironment(process.env);
    const onOutput = (text: string) => log.write(text);
    const started = startServerProcess(binaries.server, args, { env, cwd: directory, onOutput });
    server = started;
    await waitUntilReady('Temporal server', started, READY_TIMEOUT_MS, () => ensureNamespace(address));
  };
  const setUp = () => setUpSchemas(binaries, directory, ports.postgres);
  const stop = async () => {
    await server?.stop();
    await postgres.stop('immediate');
    log.end();
    await rm(directory, { recursive: true, force: true });
  };

  try {
    await postgres.start();
    await setUp();
    await startServer();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    ...{ address, directory, ports },
    stopPostgres: (mode) => postgres.stop(mode),
    startPostgres: () => postgres.start(),
    killServer: async () => {
      await server?.kill('SIGKILL');
    },
    startServer,
    upgradeServer: async () => {
      binaries = await resolveTemporalServer('newest');
      await server?.stop();
      await setUp();
      await startServer();
    },
    setUpSchemas: setUp,
    stop,
  };
}

/** Runs the script that docker-compose.yml runs. */
async function setUpSchemas(binaries: TemporalServerBinaries, directory: string, port: number): Promise<void> {
  const toolDirectory = join(directory, 'bin');
  await mkdir(toolDirectory, { recursive: true });
  const tool = join(toolDirectory, 'temporal-sql-tool');
  await rm(tool, { force: true });
  await symlink(binaries.sqlTool, tool);
  const env = {
    ...childEnvironment(process.env),
    PATH: `${toolDirectory}${delimiter}${process.env['PATH'] ?? ''}`,
    SQL_PLUGIN: 'postgres12',
    SQL_HOST: '127.0.0.1',
    SQL_PORT: String(port),
    SQL_USER: 'temporal',
    SQL_PASSWORD: 'temporal',
    SCHEMA_DIRECTORY: binaries.schemaDirectory,
  };
  await promisify(execFile)('/bin/sh', [SCHEMA_SCRIPT], { env, timeout: SCHEMA_TIMEOUT_MS });
}

/** Registers the namespace if it is missing. It is ready once workflows can be listed. */
async function ensureNamespace(address: string): Promise<boolean> {
  const connection = await Connection.connect({ address, connectTimeout: CONNECT_TIMEOUT_MS });
  try {
    await connection.withDeadline(Date.now() + 10_000, async () => {
      const { workflowService } = connection;
      const { namespaces } = await workflowService.listNamespaces({});
      if (!namespaces.some(({ namespaceInfo }) => namespaceInfo?.name === NAMESPACE)) {
        const workflowExecutionRetentionPeriod = msToTs(RETENTION_MS);
        await workflowService.registerNamespace({ namespace: NAMESPACE, workflowExecutionRetentionPeriod });
      }
      await workflowService.listWorkflowExecutions({ namespace: NAMESPACE });
    });
    return true;
  } finally {
    await connection.close();
  }
}
