/** Version of the official CLI module (server 1.29.1, UI 2.42.1) that is built when none is found. */
export const TEMPORAL_CLI_VERSION = 'v1.5.1';

/** Go module of the official CLI. */
export const TEMPORAL_CLI_MODULE = 'github.com/temporalio/cli/cmd/temporal';

/**
 * Oldest server that is taken from PATH or a setting: update-with-start, which every ask for a send slot uses, is
 * generally available from 1.28 on.
 */
export const MIN_TEMPORAL_SERVER_VERSION = [1, 28] as const;

/** Version of the Temporal SDK, which decides what its own download gives. */
export const TEMPORAL_SDK_VERSION = '1.24.0';

/** Version of `io.temporal:temporal-test-server`, the time-skipping server of the Java SDK. */
export const TIME_SKIPPING_SERVER_VERSION = '1.35.0';

/** Maven plugin that copies the time-skipping server and what it needs. */
export const MAVEN_DEPENDENCY_PLUGIN = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1';
