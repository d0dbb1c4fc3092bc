# Sends one follow-up to a stack that runs already, such as `npm start`, with the Temporal SDK alone:
# pip install temporalio && python examples/start_follow_up.py
import asyncio

from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy


async def main() -> None:
    client = await Client.connect("localhost:7233")
    result = await client.execute_workflow(
        "followUp",
        {"projectId": "demo", "jobId": "job-2", "prompt": "Add tests for the parser."},
        id="follow-up/demo/job-2/parser-tests",
        task_queue="follow-ups",
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
    )
    print(result["status"], result["prLink"])


asyncio.run(main())
