import { AsyncLocalStorage } from 'node:async_hooks';
import type { Connection, ConnectionLike } from '@temporalio/client';

/** A connection for clients that keep theirs, while another one takes its place. */
export class ReplaceableConnection implements ConnectionLike {
  #newest: Connection;
  /** What runs within a deadline keeps the connection that knows the deadline. */
  readonly #bound = new AsyncLocalStorage<Connection>();

  constructor(first: Connection) {
    this.#newest = first;
  }

  /** Calls that begin from now on go over `connection`. Closes nothing. */
  replaceBy(connection: Connection): void {
    this.#newest = connection;
  }

  get workflowService(): Connection['workflowService'] {
    return this.#connection.workflowService;
  }

  get operatorService(): Connection['operatorService'] {
    return this.#connection.operatorService;
  }

  get plugins(): Connection['plugins'] {
    return this.#newest.plugins;
  }

  close(): Promise<void> {
    return this.#newest.close();
  }

  ensureConnected(): Promise<void> {
    return this.#newest.ensureConnected();
  }

  withDeadline<R>(deadline: number | Date, run: () => Promise<R>): Promise<R> {
    return this.#bind((connection) => connection.withDeadline(deadline, run));
  }

  withMetadata<R>(metadata: Parameters<Connection['withMetadata']>[0], run: () => Promise<R>): Promise<R> {
    return this.#bind((connection) => connection.withMetadata(metadata, run));
  }

  withAbortSignal<R>(signal: AbortSignal, run: () => Promise<R>): Promise<R> {
    return this.#bind((connection) => connection.withAbortSignal(signal, run));
  }

  get #connection(): Connection {
    return this.#bound.getStore() ?? this.#newest;
  }

  #bind<R>(run: (connection: Connection) => Promise<R>): Promise<R> {
    const connection = this.#connection;
    return this.#bound.run(connection, () => run(connection));
  }
}
