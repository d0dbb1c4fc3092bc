"""Sends a follow-up from a workflow, as its child, to a stack that runs already, such as `npm start`.

pip install -r requirements.txt
python child_workflow.py demo job-2 parent-1 "Add tests for the parser."
"""

import asyncio
import json
import os
import sys
from typing import Any

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, ChildWorkflowError
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from follow_ups import TASK_QUEUE, connect, workflow_id


@workflow.defn
class ParentWorkflow:
    @workflow.run
    async def run(self, input: dict[str, Any]) -> dict[str, Any]:
        """Returns the pull request, or how the follow-up failed and whether its message was delivered."""
        try:
            result = await workflow.execute_child_workflow(
                "followUp",
                input,
                id=workflow_id(input["projectId"], input["jobId"], workflow.info().workflow_id),
                task_queue=TASK_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            )
            return {"status": result["status"], "prLink": result["prLink"]}
        except ChildWorkflowError as error:
            # Without a type: a cancel before the send, for example. This workflow ends in the same way.
            if not isinstance(error.cause, ApplicationError):
                raise
            return {"failure": error.cause.type, "delivered": error.cause.details[0]["delivered"]}


async def main() -> None:
    project_id, job_id, id, prompt = sys.argv[1:]
    client = await connect()
    input = {"projectId": project_id, "jobId": job_id, "prompt": prompt}
    async with Worker(client, task_queue="python-workflows", workflows=[ParentWorkflow]):
        answer = await client.execute_workflow(ParentWorkflow.run, input, id=id, task_queue="python-workflows")
    print(json.dumps(answer))


if __name__ == "__main__":
    asyncio.run(main())
    sys.stdout.flush()
    # As in follow_ups.py.
    os._exit(0)
