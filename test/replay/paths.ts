/** A recorded history as JSON. */
interface HistoryJson {
  events: ({ eventType: string } & Record<string, unknown>)[];
}

/** The path of a run, as its history shows it. */
export interface RecordedPath {
  workflowType: string;
  /** How the run ended, with the type of its failure, or its last event if it had not ended. */
  end: string;
  /** Number of events. */
  length: number;
  /** Every kind of step: events, with their names of activities, signals and the like. */
  steps: ReadonlySet<string>;
  /** Which steps follow each other. Two runs that differ only in their number of loops have the same signature. */
  signature: string;
}

/** Events that every run has, in an order that depends on the machine. */
const NO_STEP = /^(WORKFLOW_TASK_(SCHEDULED|STARTED|COMPLETED)|ACTIVITY_TASK_STARTED)$/;

/** Reads a recorded history. */
export function pathOf(history: unknown): RecordedPath {
  const { events } = history as HistoryJson;
  const steps = events
    .map((event) => ({ type: event.eventType.replace('EVENT_TYPE_', ''), event }))
    .filter(({ type }) => !NO_STEP.test(type))
    .map(({ type, event }) => `${type}${namesIn(event)}`);
  const [first = '', ...others] = steps;
  const pairs = new Set(others.map((step, index) => `${steps[index]} > ${step}`));
  return {
    workflowType: /\(([^ )]*)/.exec(first)?.[1] ?? '',
    end: steps.at(-1) ?? '',
    length: events.length,
    steps: new Set(steps),
    signature: [first, ...[...pairs].sort()].join('\n'),
  };
}

/** The attributes of an event that are used here. */
interface Attributes {
  workflowType?: { name: string };
  activityType?: { name: string };
  acceptedRequest?: { input?: { name: string } };
  failure?: { applicationFailureInfo?: { type?: string }; cause?: object };
  signalName?: string;
  cause?: string;
  continuedExecutionRunId?: string;
}

/** The names of activities, signals, updates, failures and the like in an event. */
function namesIn(event: Record<string, unknown>): string {
  const [, attributes = {}] = Object.entries(event).find(([key]) => key.endsWith('Attributes')) ?? [];
  const { workflowType, activityType, acceptedRequest, failure, signalName, cause, continuedExecutionRunId } =
    attributes as Attributes;
  const names = [
    workflowType?.name,
    activityType?.name,
    acceptedRequest?.input?.name,
    signalName,
    failure && (failure.applicationFailureInfo?.type ?? 'failure'),
    cause,
    continuedExecutionRunId && 'continued',
  ].filter((name) => name !== undefined && name !== '');
  return names.length === 0 ? '' : `(${names.join(' ')})`;
}
