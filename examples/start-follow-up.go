// Sends one follow-up to a stack that runs already, such as `npm start`, with the Temporal SDK alone. In a folder of its
// own: go mod init example.com/start-follow-up && go mod tidy && go run .
package main

import (
	"context"
	"fmt"
	"log"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

func main() {
	temporal, err := client.Dial(client.Options{HostPort: "localhost:7233"})
	if err != nil {
		log.Fatal(err)
	}
	defer temporal.Close()

	ctx := context.Background()
	options := client.StartWorkflowOptions{
		ID:                    "follow-up/demo/job-4/parser-tests",
		TaskQueue:             "follow-ups",
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}
	input := map[string]string{"projectId": "demo", "jobId": "job-4", "prompt": "Add tests for the parser."}
	run, err := temporal.ExecuteWorkflow(ctx, options, "followUp", input)
	if err != nil {
		log.Fatal(err)
	}
	var result struct {
		Status string  `json:"status"`
		PRLink *string `json:"prLink"`
	}
	if err := run.Get(ctx, &result); err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Status)
	if result.PRLink != nil {
		fmt.Println(*result.PRLink)
	}
}
