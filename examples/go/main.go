// Sends follow-ups with the Temporal SDK alone, to a stack that runs already, such as `npm start`:
//
//	go run . send demo job-4 parser-tests "Add tests for the parser."
//	go run . progress demo job-4 parser-tests
//	go run . list demo
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
)

// Input of the workflow; further fields are optional.
type Input struct {
	ProjectID string `json:"projectId"`
	JobID     string `json:"jobId"`
	Prompt    string `json:"prompt"`
}

// Result of the workflow; further fields are in the reference.
type Result struct {
	Status        string  `json:"status"`
	PRLink        *string `json:"prLink"`
	PRLinkChanged bool    `json:"prLinkChanged"`
}

// Failure is how a follow-up ended without a result.
type Failure struct {
	Type    string `json:"failure"`
	Message string `json:"message"`
	// Delivered says whether the message reached the job: yes, no or unknown.
	Delivered string `json:"delivered"`
}

// Progress of a follow-up; further fields are in the reference.
type Progress struct {
	State      string  `json:"state"`
	Position   int     `json:"position,omitempty"`
	Polls      int     `json:"polls"`
	NextPollAt string  `json:"nextPollAt,omitempty"`
	PRLink     *string `json:"prLink,omitempty"`
}

// Listed is a follow-up as its search attributes show it.
type Listed struct {
	WorkflowID string `json:"workflowId"`
	State      string `json:"state"`
	PRLink     string `json:"prLink"`
}

func workflowID(projectID, jobID, key string) string {
	return fmt.Sprintf("follow-up/%s/%s/%s", projectID, jobID, key)
}

// Starts a follow-up, or finds the one that was started with the same key, running or ended.
func start(ctx context.Context, c client.Client, key string, input Input) (client.WorkflowRun, error) {
	taskQueue := os.Getenv("FOLLOW_UP_TASK_QUEUE")
	if taskQueue == "" {
		taskQueue = "follow-ups"
	}
	return c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                    workflowID(input.ProjectID, input.JobID, key),
		TaskQueue:             taskQueue,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		// The default, written down: the run of the first start is no error.
		WorkflowExecutionErrorWhenAlreadyStarted: false,
	}, "followUp", input)
}

// Starts a follow-up and waits for its end. Only one of result, failure and error is set.
func send(ctx context.Context, c client.Client, key string, input Input) (*Result, *Failure, error) {
	run, err := start(ctx, c, key, input)
	if err != nil {
		return nil, nil, err
	}
	var result Result
	err = run.Get(ctx, &result)
	if err == nil {
		return &result, nil, nil
	}
	var failed *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	var ended *temporal.WorkflowExecutionError
	switch {
	case errors.As(err, &failed):
		failure := Failure{Type: failed.Type(), Message: failed.Message()}
		return nil, &failure, failed.Details(&failure)
	case errors.As(err, &cancelled):
		return nil, &Failure{Type: "Canceled", Message: "cancelled before the send", Delivered: "no"}, nil
	case errors.As(err, &ended):
		// Somebody terminated the workflow, or a timeout that its starter had set has passed.
		return nil, &Failure{Type: "Other", Message: err.Error(), Delivered: "unknown"}, nil
	}
	return nil, nil, err
}

// What the follow-up does now. The polls of a running watch are in its pending activity.
func progress(ctx context.Context, c client.Client, id string) (Progress, error) {
	var known Progress
	answer, err := c.QueryWorkflow(ctx, id, "", "progress")
	if err != nil {
		return known, err
	}
	if err := answer.Get(&known); err != nil {
		return known, err
	}
	description, err := c.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return known, err
	}
	for _, activity := range description.GetPendingActivities() {
		details := activity.GetHeartbeatDetails()
		if activity.GetActivityType().GetName() != "watchJob" || len(details.GetPayloads()) == 0 {
			continue
		}
		var seen struct{ Polls int }
		if err := converter.GetDefaultDataConverter().FromPayloads(details, &seen); err != nil {
			return known, err
		}
		known.Polls += seen.Polls
	}
	return known, nil
}

// The follow-ups of a project. What is listed may be a second old.
func list(ctx context.Context, c client.Client, projectID string) ([]Listed, error) {
	listed := []Listed{}
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = 'followUp' AND FollowUpProjectId = '%s'", projectID),
	}
	for {
		page, err := c.ListWorkflow(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, execution := range page.GetExecutions() {
			each := Listed{WorkflowID: execution.GetExecution().GetWorkflowId()}
			fields := execution.GetSearchAttributes().GetIndexedFields()
			for name, value := range map[string]*string{"FollowUpState": &each.State, "FollowUpPrLink": &each.PRLink} {
				if payload, ok := fields[name]; ok {
					if err := converter.GetDefaultDataConverter().FromPayload(payload, value); err != nil {
						return nil, err
					}
				}
			}
			listed = append(listed, each)
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return listed, nil
		}
	}
}

func run(ctx context.Context, arguments []string) (answer any, failed bool, err error) {
	// TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY and so on.
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, false, err
	}
	c, err := client.Dial(options)
	if err != nil {
		return nil, false, err
	}
	defer c.Close()
	switch {
	case len(arguments) == 5 && arguments[0] == "send":
		input := Input{ProjectID: arguments[1], JobID: arguments[2], Prompt: arguments[4]}
		result, failure, err := send(ctx, c, arguments[3], input)
		if failure != nil {
			return failure, true, err
		}
		return result, false, err
	case len(arguments) == 4 && arguments[0] == "progress":
		answer, err = progress(ctx, c, workflowID(arguments[1], arguments[2], arguments[3]))
	case len(arguments) == 2 && arguments[0] == "list":
		answer, err = list(ctx, c, arguments[1])
	default:
		err = errors.New("usage: send PROJECT JOB KEY PROMPT | progress PROJECT JOB KEY | list PROJECT")
	}
	return answer, false, err
}

func main() {
	answer, failed, err := run(context.Background(), os.Args[1:])
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		log.Fatal(err)
	}
	if failed {
		os.Exit(1)
	}
}
