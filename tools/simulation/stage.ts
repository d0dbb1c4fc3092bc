import type { FollowUpSettings as Settings } from '../../src/contract/index.js';
import type { Log } from './log.js';
import type { BudgetOptions } from './ports.js';
import type { Fault } from './profiles.js';
import type { Server } from './server.js';
import type { Service } from './service.js';
import type { World } from './world.js';

/** Someone who starts a follow-up. */
export interface Caller {
  workflowId: string;
  startsAtMs: number;
  settings: Settings;
  isResendAllowed: boolean;
}

/** All that takes part in a seed. */
export interface Stage {
  world: World;
  has: ReadonlySet<Fault>;
  server: Server;
  service: Service;
  log: Log;
  callers: Caller[];
  budget: BudgetOptions;
}
