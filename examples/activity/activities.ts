import { cancellationDetails, cancellationSignal, heartbeat } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import {
  type FollowUpClient,
  FollowUpFailedError,
  type FollowUpHandle,
  InvalidInputError,
  RefusedError,
  type StartInput,
} from 'agent-follow-up/client';

export function createActivities(followUps: FollowUpClient) {
  return {
    /** Starts a follow-up, or finds the one with the same key, and waits for its end. */
    async sendFollowUp(input: StartInput & { key: string }) {
      const heartbeats = setInterval(heartbeat, 2_000);
      try {
        return await resultOf(await followUps.start(input));
      } catch (error) {
        throw toFailure(error);
      } finally {
        clearInterval(heartbeats);
      }
    },
  };
}

async function resultOf(followUp: FollowUpHandle) {
  try {
    return await followUp.result({ signal: cancellationSignal() });
  } catch (error) {
    // If this worker stops, the wait ends, too. The next attempt continues it.
    if (!cancellationDetails()?.cancelRequested) throw error;
    await followUp.cancel().catch((refusal: unknown) => {
      if (!RefusedError.is(refusal, 'FollowUpEnded')) throw refusal;
    });
    return followUp.result();
  }
}

/** The failure that a parent gets of its child. The activity is tried again after any other error. */
function toFailure(error: unknown) {
  if (error instanceof InvalidInputError) {
    const { type, message, delivered, issues } = error;
    return ApplicationFailure.nonRetryable(message, type, { delivered, issues });
  }
  if (!(error instanceof FollowUpFailedError)) return error;
  const { type, message, details, delivered } = error;
  if (type === 'Cancelled' && delivered === 'no') return new CancelledFailure(message);
  return ApplicationFailure.nonRetryable(message, type, details);
}
