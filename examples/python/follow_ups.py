"""Sends follow-ups with the Temporal SDK alone, to a stack that runs already, such as `npm start`.

pip install -r requirements.txt
python follow_ups.py send demo job-2 parser-tests "Add tests for the parser."
python follow_ups.py progress demo job-2 parser-tests
python follow_ups.py list demo
"""

import asyncio
import json
import os
import sys
from typing import Any

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import SearchAttributeKey, WorkflowIDReusePolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError, CancelledError, WorkflowAlreadyStartedError

TASK_QUEUE = os.environ.get("FOLLOW_UP_TASK_QUEUE", "follow-ups")
STATE = SearchAttributeKey.for_keyword("FollowUpState")
PR_LINK = SearchAttributeKey.for_keyword("FollowUpPrLink")


def workflow_id(project_id: str, job_id: str, key: str) -> str:
    return f"follow-up/{project_id}/{job_id}/{key}"


async def start(client: Client, project_id: str, job_id: str, key: str, prompt: str) -> WorkflowHandle[Any, Any]:
    """Starts a follow-up, or finds the one that was started with the same key, running or ended."""
    id = workflow_id(project_id, job_id, key)
    try:
        return await client.start_workflow(
            "followUp",
            {"projectId": project_id, "jobId": job_id, "prompt": prompt},
            id=id,
            task_queue=TASK_QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        )
    except WorkflowAlreadyStartedError:
        return client.get_workflow_handle(id)


async def send(client: Client, project_id: str, job_id: str, key: str, prompt: str) -> dict[str, Any]:
    """Starts a follow-up and waits for its end: its result, or how it failed and whether the message was delivered."""
    handle = await start(client, project_id, job_id, key, prompt)
    try:
        return await handle.result()
    except WorkflowFailureError as failure:
        cause = failure.cause
        if isinstance(cause, ApplicationError):
            return {"failure": cause.type, "message": cause.message, **cause.details[0]}
        if isinstance(cause, CancelledError):
            return {"failure": "Canceled", "message": "cancelled before the send", "delivered": "no"}
        # Somebody terminated the workflow, or a timeout that its starter had set has passed.
        return {"failure": type(cause).__name__, "message": str(cause), "delivered": "unknown"}


async def progress(client: Client, project_id: str, job_id: str, key: str) -> dict[str, Any]:
    """What the follow-up does now. The polls of a running watch are in its pending activity."""
    handle = client.get_workflow_handle(workflow_id(project_id, job_id, key))
    known: dict[str, Any] = await handle.query("progress")
    description = await handle.describe()
    for activity in description.raw_description.pending_activities:
        details = activity.heartbeat_details.payloads
        if activity.activity_type.name == "watchJob" and details:
            [seen] = await client.data_converter.decode(details)
            known["polls"] += seen["polls"]
    return known


async def list_follow_ups(client: Client, project_id: str) -> list[dict[str, Any]]:
    """The follow-ups of a project. What is listed may be a second old."""
    query = f"WorkflowType = 'followUp' AND FollowUpProjectId = '{project_id}'"
    return [
        {
            "workflowId": each.id,
            "state": each.typed_search_attributes.get(STATE),
            "prLink": each.typed_search_attributes.get(PR_LINK),
        }
        async for each in client.list_workflows(query)
    ]


async def connect() -> Client:
    # TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY and so on.
    config = ClientConfig.load_client_connect_config()
    config.setdefault("target_host", "localhost:7233")
    return await Client.connect(**config)


async def main() -> int:
    commands = {"send": send, "progress": progress, "list": list_follow_ups}
    name, *arguments = sys.argv[1:]
    answer = await commands[name](await connect(), *arguments)
    print(json.dumps(answer))
    return 1 if "failure" in answer and name == "send" else 0


if __name__ == "__main__":
    exit_code = asyncio.run(main())
    sys.stdout.flush()
    # Without the teardown of the interpreter, in which the SDK's threads can crash a process this short, after its work
    # is done: https://github.com/temporalio/sdk-python/issues/300
    os._exit(exit_code)
