import com.fasterxml.jackson.databind.ObjectMapper;
import io.temporal.api.common.v1.Payloads;
import io.temporal.api.enums.v1.WorkflowIdReusePolicy;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowExecutionAlreadyStarted;
import io.temporal.client.WorkflowFailedException;
import io.temporal.client.WorkflowOptions;
import io.temporal.client.WorkflowStub;
import io.temporal.common.SearchAttributeKey;
import io.temporal.common.converter.DataConverter;
import io.temporal.envconfig.ClientConfigProfile;
import io.temporal.failure.ApplicationFailure;
import io.temporal.failure.CanceledFailure;
import io.temporal.serviceclient.WorkflowServiceStubs;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Sends follow-ups with the Temporal SDK alone, to a stack that runs already, such as `npm start`.
 *
 * <pre>
 * mvn -q compile exec:java -Dexec.args="send demo job-3 parser-tests 'Add tests for the parser.'"
 * mvn -q compile exec:java -Dexec.args="progress demo job-3 parser-tests"
 * mvn -q compile exec:java -Dexec.args="list demo"
 * </pre>
 */
public final class FollowUps {
  /** Input of the workflow. A field that is null counts as absent. */
  public record Input(String projectId, String jobId, String prompt, String lane) {}

  private static final SearchAttributeKey<String> STATE = SearchAttributeKey.forKeyword("FollowUpState");
  private static final SearchAttributeKey<String> PR_LINK = SearchAttributeKey.forKeyword("FollowUpPrLink");

  private final WorkflowClient client;
  private final String taskQueue;

  FollowUps(WorkflowClient client, String taskQueue) {
    this.client = client;
    this.taskQueue = taskQueue;
  }

  static String workflowId(String projectId, String jobId, String key) {
    return "follow-up/" + projectId + "/" + jobId + "/" + key;
  }

  /** Starts a follow-up, or finds the one that was started with the same key, running or ended. */
  WorkflowStub start(String key, Input input) {
    String workflowId = workflowId(input.projectId(), input.jobId(), key);
    WorkflowOptions options =
        WorkflowOptions.newBuilder()
            .setWorkflowId(workflowId)
            .setTaskQueue(taskQueue)
            .setWorkflowIdReusePolicy(WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE)
            .build();
    WorkflowStub stub = client.newUntypedWorkflowStub("followUp", options);
    try {
      stub.start(input);
      return stub;
    } catch (WorkflowExecutionAlreadyStarted started) {
      return client.newUntypedWorkflowStub(workflowId);
    }
  }

  /** Starts a follow-up and waits for its end: its result, or how it failed and whether the message was delivered. */
  Map<String, Object> send(String key, Input input) {
    try {
      return asMap(start(key, input).getResult(Map.class));
    } catch (WorkflowFailedException failed) {
      Map<String, Object> failure = new LinkedHashMap<>();
      if (failed.getCause() instanceof ApplicationFailure cause) {
        failure.put("failure", cause.getType());
        failure.put("message", cause.getOriginalMessage());
        failure.putAll(asMap(cause.getDetails().get(0, Map.class)));
      } else if (failed.getCause() instanceof CanceledFailure) {
        failure.put("failure", "Canceled");
        failure.put("delivered", "no");
      } else {
        // Somebody terminated the workflow, or a timeout that its starter had set has passed.
        failure.put("failure", "Other");
        failure.put("message", String.valueOf(failed.getCause()));
        failure.put("delivered", "unknown");
      }
      return failure;
    }
  }

  /** What the follow-up does now. The polls of a running watch are in its pending activity. */
  Map<String, Object> progress(String workflowId) {
    WorkflowStub stub = client.newUntypedWorkflowStub(workflowId);
    Map<String, Object> known = asMap(stub.query("progress", Map.class));
    DataConverter converter = client.getOptions().getDataConverter();
    for (var activity : stub.describe().getRawDescription().getPendingActivitiesList()) {
      Payloads details = activity.getHeartbeatDetails();
      if (activity.getActivityType().getName().equals("watchJob") && details.getPayloadsCount() > 0) {
        Map<String, Object> seen = asMap(converter.fromPayloads(0, Optional.of(details), Map.class, Map.class));
        known.merge("polls", seen.get("polls"), (before, polls) -> (Integer) before + (Integer) polls);
      }
    }
    return known;
  }

  /** The follow-ups of a project. What is listed may be a second old. */
  List<Map<String, Object>> list(String projectId) {
    String query = "WorkflowType = 'followUp' AND FollowUpProjectId = '" + projectId + "'";
    return client
        .listExecutions(query)
        .map(
            each -> {
              Map<String, Object> listed = new LinkedHashMap<>();
              listed.put("workflowId", each.getExecution().getWorkflowId());
              listed.put("state", each.getTypedSearchAttributes().get(STATE));
              listed.put("prLink", each.getTypedSearchAttributes().get(PR_LINK));
              return listed;
            })
        .toList();
  }

  @SuppressWarnings("unchecked")
  private static Map<String, Object> asMap(Object json) {
    return (Map<String, Object>) json;
  }

  public static void main(String[] arguments) throws Exception {
    // TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY and so on.
    ClientConfigProfile profile = ClientConfigProfile.load();
    WorkflowServiceStubs service = WorkflowServiceStubs.newServiceStubs(profile.toWorkflowServiceStubsOptions());
    WorkflowClient client = WorkflowClient.newInstance(service, profile.toWorkflowClientOptions());
    String taskQueue = Optional.ofNullable(System.getenv("FOLLOW_UP_TASK_QUEUE")).orElse("follow-ups");
    FollowUps followUps = new FollowUps(client, taskQueue);
    Object answer =
        switch (arguments[0]) {
          case "send" ->
              followUps.send(arguments[3], new Input(arguments[1], arguments[2], arguments[4], null));
          case "progress" -> followUps.progress(workflowId(arguments[1], arguments[2], arguments[3]));
          case "list" -> followUps.list(arguments[1]);
          default -> throw new IllegalArgumentException("send, progress or list, not " + arguments[0]);
        };
    System.out.println(new ObjectMapper().writeValueAsString(answer));
    service.shutdown();
    System.exit(arguments[0].equals("send") && answer instanceof Map<?, ?> map && map.containsKey("failure") ? 1 : 0);
  }
}
