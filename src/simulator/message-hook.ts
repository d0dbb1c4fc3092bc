/**
 * Steps of a message request: it has arrived whole and nothing is decided; it stands in the ledger, on disk where there
 * is a file; its answer has been handed to the socket.
 */
export type MessageStep = 'received' | 'recorded' | 'answered';

/** Called at each step; the request goes on when it resolves. */
export type MessageHook = (reached: {
  step: MessageStep;
  projectId: string;
  jobId: string;
  /** `null` where the body had none. */
  prompt: string | null;
}) => Promise<void> | void;
