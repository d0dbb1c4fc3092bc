// Sends a follow-up from a workflow, as its child, to a stack that runs already, such as `npm start`:
//
//	go run ./child-workflow demo job-4 parent-1 "Add tests for the parser."
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Input of the follow-up; further fields are optional.
type Input struct {
	ProjectID string `json:"projectId"`
	JobID     string `json:"jobId"`
	Prompt    string `json:"prompt"`
}

// Ending of the follow-up: its result, or its failure.
type Ending struct {
	Status  string  `json:"status,omitempty"`
	PRLink  *string `json:"prLink,omitempty"`
	Failure string  `json:"failure,omitempty"`
	// Delivered says whether the message reached the job: yes, no or unknown.
	Delivered string `json:"delivered,omitempty"`
}

// FollowUpTaskQueue is that of the follow-ups' workers.
var FollowUpTaskQueue = "follow-ups"

// ParentWorkflow returns the pull request, or how the follow-up failed and whether its message was delivered.
func ParentWorkflow(ctx workflow.Context, input Input) (Ending, error) {
	key := workflow.GetInfo(ctx).WorkflowExecution.ID
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            fmt.Sprintf("follow-up/%s/%s/%s", input.ProjectID, input.JobID, key),
		TaskQueue:             FollowUpTaskQueue,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
		// Otherwise, a cancelled parent does not learn how the follow-up ends.
		WaitForCancellation: true,
	})
	var ending Ending
	err := workflow.ExecuteChildWorkflow(ctx, "followUp", input).Get(ctx, &ending)
	var failed *temporal.ApplicationError
	if !errors.As(err, &failed) {
		// A result; or a used key, or a cancel before the send, with which this workflow ends in the same way.
		return ending, err
	}
	ending.Failure = failed.Type()
	return ending, failed.Details(&ending)
}

func run(ctx context.Context, arguments []string) (ending Ending, err error) {
	if len(arguments) != 4 {
		return ending, errors.New("usage: PROJECT JOB ID PROMPT")
	}
	if name := os.Getenv("FOLLOW_UP_TASK_QUEUE"); name != "" {
		FollowUpTaskQueue = name
	}
	// TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY and so on.
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return ending, err
	}
	// Standard output is for the answer.
	options.Logger = sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	c, err := client.Dial(options)
	if err != nil {
		return ending, err
	}
	defer c.Close()
	const taskQueue = "go-workflows"
	w := worker.New(c, taskQueue, worker.Options{})
	w.RegisterWorkflow(ParentWorkflow)
	if err := w.Start(); err != nil {
		return ending, err
	}
	defer w.Stop()
	input := Input{ProjectID: arguments[0], JobID: arguments[1], Prompt: arguments[3]}
	start := client.StartWorkflowOptions{ID: arguments[2], TaskQueue: taskQueue}
	parent, err := c.ExecuteWorkflow(ctx, start, ParentWorkflow, input)
	if err != nil {
		return ending, err
	}
	return ending, parent.Get(ctx, &ending)
}

func main() {
	ending, err := run(context.Background(), os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(ending); err != nil {
		log.Fatal(err)
	}
}
