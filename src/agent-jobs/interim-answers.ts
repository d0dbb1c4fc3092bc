import type * as net from 'node:net';

/** 1xx, without 101: a switch to another protocol is an answer, and one that cannot be used. */
const INTERIM_STATUS = /^HTTP\/1\.[01] 1(?!01)\d\d/;
const VERSION = 'HTTP/1.';
/** So many bytes show whether an answer is an interim one. */
const STATUS_BYTES = 'HTTP/1.1 100'.length;
const HEAD_END = '\r\n\r\n';
/** Longest head of an interim answer: that of undici for a final one. */
const MAX_HEAD_BYTES = 16_384;

/**
 * Leaves out interim answers from what a socket reads. A server or a proxy may send any 1xx before its answer, and a
 * client has to skip them (RFC 9110 section 15.2). undici gives up a connection at a `100 Continue` that was not asked
 * for, and with it the answer.
 */
export function skipInterim<S extends net.Socket>(socket: S): S {
  const read = socket.read.bind(socket);
  /** Bytes that may belong to an interim answer whose end has not arrived. */
  let held: Buffer = Buffer.alloc(0);
  /** Bytes that had been written when the last final answer began. Until a request follows, its body is read. */
  let answeredAtBytes: number | undefined;

  socket.read = (size?: number): unknown => {
    const chunk: unknown = read(size);
    if (!Buffer.isBuffer(chunk) || socket.bytesWritten === answeredAtBytes) return chunk;
    held = afterInterim(Buffer.concat([held, chunk]));
    if (mayBeInterim(held)) return null;
    const answer = held;
    held = Buffer.alloc(0);
    answeredAtBytes = socket.bytesWritten;
    return answer;
  };
  return socket;
}

function afterInterim(bytes: Buffer): Buffer {
  let rest = bytes;
  for (let end = 0; end >= 0 && isInterim(rest);) {
    end = rest.indexOf(HEAD_END);
    if (end >= 0) rest = rest.subarray(end + HEAD_END.length);
  }
  return rest;
}

function mayBeInterim(bytes: Buffer): boolean {
  if (bytes.length >= STATUS_BYTES) return bytes.length <= MAX_HEAD_BYTES && isInterim(bytes);
  return VERSION.startsWith(bytes.toString('latin1', 0, VERSION.length));
}

function isInterim(bytes: Buffer): boolean {
  return INTERIM_STATUS.test(bytes.toString('latin1', 0, STATUS_BYTES));
}
