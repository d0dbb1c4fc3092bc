import { Client, credentials, Metadata } from '@grpc/grpc-js';
import type { Environment } from '../config/settings-reader.js';
import { SettingsReader } from '../config/settings-reader.js';
import { readTemporalConfig, type TemporalConfig, usesTls } from '../config/temporal-config.js';
import { WorkflowIdPrefix, WorkflowType } from '../contract/names.js';

// Loading the SDK's client would take most of the time: so this calls the server directly, with the few fields it
// needs.
// The field numbers are those of temporal/api/workflowservice/v1/request_response.proto.

/** A kind of ids that the server has. */
interface IdSource {
  method: 'ListWorkflowExecutions' | 'ListSchedules';
  /** Every workflow or schedule of this type. */
  workflowType: string;
  /** Prefix that is removed from the workflow id. */
  prefix: string;
}

/** Sources of the values for placeholders of arguments and options. */
export const idSources: Readonly<Record<string, IdSource | undefined>> = {
  project: workflows(WorkflowType.projectBudget, WorkflowIdPrefix.projectBudget),
  workflowId: workflows(WorkflowType.followUp, ''),
  batch: workflows(WorkflowType.followUpBatch, WorkflowIdPrefix.followUpBatch),
  schedule: { method: 'ListSchedules', workflowType: WorkflowType.followUpBatch, prefix: '' },
};

/** More ids than anybody reads. */
const MAX_IDS = 200;

/**
 * Ids that begin with `start`; workflows newest first.
 *
 * @throws ConfigError, and the errors of gRPC
 */
export async function listIds(
  env: Environment,
  { method, workflowType, prefix }: IdSource,
  start: string,
  timeoutMs: number,
): Promise<string[]> {
  // It becomes part of a query.
  if (!/^[\w.~:/-]*$/.test(start)) return [];
  const settings = new SettingsReader(env);
  const config = readTemporalConfig(settings, env);
  settings.throwIfBad();
  // The runs before a continue-as-new have the same id.
  const query = `WorkflowType = '${workflowType}' AND ExecutionStatus != 'ContinuedAsNew' AND WorkflowId STARTS_WITH '${prefix}${start}'`;
  const isSchedules = method === 'ListSchedules';
  const request = Buffer.concat([
    textField(1, config.namespace),
    countField(2, MAX_IDS),
    isSchedules ? Buffer.alloc(0) : textField(4, query),
  ]);
  const answer = await call(config, method, request, timeoutMs);
  const ids = fields(answer, 1)
    .filter((entry) => !isSchedules || textAt(entry, 4, 2, 1) === workflowType)
    .map((entry) => (isSchedules ? textAt(entry, 1) : textAt(entry, 1, 1)));
  return [...new Set(ids)].map((id) => id.slice(prefix.length)).filter((id) => id.startsWith(start));
}

function workflows(workflowType: string, prefix: string): IdSource {
  return { method: 'ListWorkflowExecutions', workflowType, prefix };
}

async function call(config: TemporalConfig, method: string, request: Buffer, timeoutMs: number): Promise<Buffer> {
  const { address, tls, apiKey, metadata } = config.connectionOptions();
  const {
    serverRootCACertificate: ca,
    clientCertPair: pair,
    serverNameOverride: name,
  } = typeof tls === 'object' && tls ? tls : {};
  const channel = usesTls(tls)
    ? credentials.createSsl(toBuffer(ca), toBuffer(pair?.key), toBuffer(pair?.crt))
    : credentials.createInsecure();
  const client = new Client(
    address,
    channel,
    name === undefined ? {} : { 'grpc.ssl_target_name_override': name, 'grpc.default_authority': name },
  );
  const headers = Metadata.fromHttp2Headers({
    ...(metadata as Record<string, string> | undefined),
    'temporal-namespace': config.namespace,
    ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
  });
  try {
    return await new Promise<Buffer>((resolve, reject) => {
      client.makeUnaryRequest(
        `/temporal.api.workflowservice.v1.WorkflowService/${method}`,
        (bytes: Buffer) => bytes,
        (bytes) => bytes,
        request,
        headers,
        { deadline: Date.now() + timeoutMs },
        (error, answer) => (answer ? resolve(answer) : reject(error ?? new Error('no answer'))),
      );
    });
  } finally {
    client.close();
  }
}

function toBuffer(bytes: Uint8Array | undefined): Buffer | null {
  return bytes ? Buffer.from(bytes) : null;
}

function textField(number: number, text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

function countField(number: number, count: number): Buffer {
  return Buffer.concat([varint(number * 8), varint(count)]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) + 128);
  }
}

/** The text at the end of a path of fields, or an empty text. */
function textAt(message: Buffer, ...path: number[]): string {
  let bytes: Buffer = message;
  for (const number of path) bytes = fields(bytes, number)[0] ?? Buffer.alloc(0);
  return bytes.toString();
}

/** The messages and texts in a field of a protobuf message. */
function fields(message: Buffer, number: number): Buffer[] {
  const found: Buffer[] = [];
  let at = 0;
  const readVarint = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = message.readUInt8(at++);
      value += (byte % 128) * factor;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = readVarint();
    const wireType = tag % 8;
    if (wireType === 0) readVarint();
    else {
      const length = wireType === 1 ? 8 : wireType === 5 ? 4 : readVarint();
      if (wireType === 2 && Math.floor(tag / 8) === number) found.push(message.subarray(at, at + length));
      at += length;
    }
  }
  return found;
}
