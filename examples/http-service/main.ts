// Node 22.18 or newer runs it as it is: node examples/http-service/main.ts
// curl -i localhost:8080/follow-ups -d '{"projectId":"demo","jobId":"job-1","prompt":"Add tests.","key":"add-tests"}'
// curl -i localhost:8080/follow-ups/follow-up%2Fdemo%2Fjob-1%2Fadd-tests
import { Client, Connection } from '@temporalio/client';
import { FollowUpClient } from 'agent-follow-up/client';
import { createFollowUpService } from './service.ts';

const connection = await Connection.connect({ address: 'localhost:7233' });
createFollowUpService(new FollowUpClient({ client: new Client({ connection }) })).listen(8080, '127.0.0.1');
