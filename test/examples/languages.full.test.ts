import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { z } from 'zod';
import { eventually } from '../support/eventually.js';
import { describeWith, findMissing, type Requirement } from '../support/requirements.js';
import { schemaCheck } from '../support/schema-check.js';
import { type Stack, startStack } from '../support/stack.js';
import { newWebhookSecret, startWebhookReceiver } from '../support/webhook-receiver.js';

const receiver = await startWebhookReceiver();
afterAll(receiver.close);
const secrets = [newWebhookSecret(), newWebhookSecret()];
const run = promisify(execFile);
const exited = z.object({ stdout: z.string(), stderr: z.string(), code: z.int() });
const examples = join(import.meta.dirname, '..', '..', 'examples');

type Program = [command: string, ...args: string[]];

interface Language {
  name: Requirement;
  /**
   * Installs what the examples in `directory` need and compiles them. Returns the commands that run them: the client,
   * and, except in Java, the workflow with a follow-up as its child.
   */
  build: (directory: string) => Promise<Program[]>;
}

const languages: Language[] = [
  {
    name: 'python',
    build: async (directory) => {
      const python = join(directory, 'venv', 'bin', 'python');
      await run('python3', ['-m', 'venv', join(directory, 'venv')]);
      // Installs nothing except the listed wheels with the listed hashes.
      const asListed = ['--quiet', '--require-hashes', '--only-binary', ':all:'];
      await run(python, ['-m', 'pip', 'install', ...asListed, '-r', join(directory, 'requirements.txt')]);
      await run(python, ['-m', 'pip', 'check']);
      return ['follow_ups.py', 'child_workflow.py'].map((file) => [python, join(directory, file)]);
    },
  },
  {
    name: 'go',
    build: async (directory) => {
      await run('go', ['vet', '-mod=readonly', './...'], { cwd: directory });
      await run('go', ['build', '-mod=readonly', '-o', 'built/', './...'], { cwd: directory });
      return ['follow-ups', 'child-workflow'].map((name) => [join(directory, 'built', name)]);
    },
  },
  {
    name: 'java',
    build: async (directory) => {
      const copy = ['dependency:copy-dependencies', '-DoutputDirectory=target/lib'];
      await run('mvn', ['--quiet', '--batch-mode', 'compile', ...copy], { cwd: directory });
      return [
        ['java', '-cp', [join(directory, 'target/classes'), join(directory, 'target/lib/*')].join(':'), 'FollowUps'],
      ];
    },
  },
];

for (const { name, build } of languages) {
  describeWith(await findMissing([name]))(`the example in ${name}`, () => {
    const directory = mkdtempSync(join(tmpdir(), `example-${name}-`));
    const projectId = `in-${name}`;
    const prLinkOf = (jobId: string, project = projectId) =>
      expect.stringContaining(`/${project}/${jobId}/pull/`) as string;
    let stack: Stack;
    let programs: Program[];

    beforeAll(async () => {
      cpSync(join(examples, name), directory, { recursive: true });
      [programs, stack] = await Promise.all([
        build(directory),
        startStack({
          address: inject('temporalAddress'),
          simulator: { turn: { minMs: 1_000, maxMs: 1_500 } },
          env: { FOLLOW_UP_WEBHOOKS: JSON.stringify({ ci: { url: receiver.url('/ci'), secrets } }) },
        }),
      ]);
    }, 900_000);
    afterAll(async () => {
      await stack.stop();
      rmSync(directory, { recursive: true, force: true });
    });

    /** Runs the client. Its answer is JSON on stdout. */
    const example = (...args: string[]) => runProgram(0, args);

    async function runProgram(which: 0 | 1, args: string[]): Promise<{ exitCode: number; answer: unknown }> {
      const [command = '', ...rest] = programs[which] ?? [];
      const env = {
        ...process.env,
        TEMPORAL_ADDRESS: inject('temporalAddress'),
        FOLLOW_UP_TASK_QUEUE: stack.taskQueue,
      };
      const ended = await run(command, [...rest, ...args], { env }).then(
        ({ stdout }) => ({ stdout, exitCode: 0 }),
        (error: unknown) => {
          const { stdout, stderr, code } = exited.parse(error);
          if (stdout === '') throw new Error(stderr);
          return { stdout, exitCode: code };
        },
      );
      return { exitCode: ended.exitCode, answer: JSON.parse(ended.stdout) as unknown };
    }
    const messages = () => stack.simulator.ledger.map(({ jobId, status }) => `${jobId} ${status}`);

    test('sends once for one key, however often and whenever it is started', async () => {
      stack.simulator.addJob({ projectId, jobId: 'once' });
      const send = () => example('send', projectId, 'once', 'key', 'Add tests.');
      const answers = [...(await Promise.all([send(), send()])), await send()];
      for (const { exitCode, answer } of answers) {
        expect(exitCode).toBe(0);
        expect(answer).toMatchObject({ status: 'completed', prLink: prLinkOf('once'), prLinkChanged: true });
      }
      expect(messages()).toEqual(['once 200']);
    });

    test('says how a follow-up failed, and that nothing was delivered', async () => {
      stack.simulator.addJob({ projectId, jobId: 'archived', status: 'archived' });
      const { exitCode, answer } = await example('send', projectId, 'archived', 'key', 'Add tests.');
      expect(exitCode).toBe(1);
      expect(answer).toMatchObject({ failure: 'JobArchived', delivered: 'no', message: expect.any(String) as string });
      expect(messages()).toEqual(['once 200']);
    });

    test('says how a follow-up ended that was cancelled before its send', async () => {
      stack.simulator.addJob({ projectId, jobId: 'cancelled' });
      await stack.followUps.budget(projectId).pause();
      const ended = example('send', projectId, 'cancelled', 'key', 'Add tests.');
      const handle = stack.followUps.handle(`follow-up/${projectId}/cancelled/key`);
      await expect
        .poll(() =>
          handle.progress().then(
            ({ state }) => state,
            () => 'none',
          ),
        )
        .toBe('blocked');
      await handle.cancel();
      expect(await ended).toMatchObject({ exitCode: 1, answer: { failure: 'Canceled', delivered: 'no' } });
      await stack.followUps.budget(projectId).resume();
    });

    test('shows the progress of a follow-up, with the polls of its running watch', async () => {
      stack.simulator.addJob({ projectId, jobId: 'long', behaviour: { neverEnds: true } });
      const poll = { initialInterval: '200ms', maxInterval: '200ms' };
      await stack.followUps.start({ projectId, jobId: 'long', prompt: 'Take long.', key: 'key', poll });
      const isRight = schemaCheck('follow-up-progress');
      const polls = async () => {
        const { answer } = await example('progress', projectId, 'long', 'key');
        const progress = answer as { state: string; polls: number };
        if (name !== 'go') expect(isRight(answer)).toEqual([]);
        return progress.state === 'polling' ? progress.polls : 0;
      };
      await expect.poll(polls).toBeGreaterThan(3);
    });

    test('lists the follow-ups of a project with their states', async () => {
      const lines = async () => {
        const { answer } = await example('list', projectId);
        return (answer as { workflowId: string; state: string; prLink: string | null }[])
          .map(({ workflowId, state, prLink }) => `${workflowId} ${state} ${prLink ? 'with a link' : 'without'}`)
          .sort();
      };
      const id = (jobId: string) => `follow-up/${projectId}/${jobId}/key`;
      await expect
        .poll(lines)
        .toEqual([
          `${id('archived')} not-sent without`,
          `${id('cancelled')} cancelled without`,
          `${id('long')} polling without`,
          `${id('once')} completed with a link`,
        ]);
    });

    if (name === 'python') {
      test('receives the end of its follow-up as a webhook, and verifies it with the official library', async () => {
        const python = programs[0]?.[0] ?? '';
        await run(python, ['-m', 'pip', 'install', '--quiet', '--no-deps', 'standardwebhooks==1.1.0']);
        stack.simulator.addJob({ projectId, jobId: 'told' });
        const start = `
import asyncio, os
from temporalio.client import Client
async def main():
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    order = {"projectId": "${projectId}", "jobId": "told", "prompt": "Add tests.", "notify": ["ci"]}
    id = "follow-up/${projectId}/told/key"
    await client.execute_workflow("followUp", order, id=id, task_queue="${stack.taskQueue}")
asyncio.run(main())`;
        await run(python, ['-c', start], { env: { ...process.env, TEMPORAL_ADDRESS: inject('temporalAddress') } });
        const webhook = await eventually('it is delivered', () => receiver.received[0]);
        const verify = `
import json, sys
from standardwebhooks import Webhook
secret, headers, body = json.loads(sys.argv[1])
print(json.dumps(Webhook(secret).verify(body, headers)["data"]))`;
        const check = (key: string) =>
          run(python, ['-c', verify, JSON.stringify([key, webhook.headers, webhook.text])]);
        for (const secret of secrets) {
          const { stdout } = await check(secret);
          expect(JSON.parse(stdout)).toMatchObject({ jobId: 'told', status: 'completed', prLink: prLinkOf('told') });
        }
        await expect(check(newWebhookSecret())).rejects.toThrow('WebhookVerificationError');
      });
    }

    if (name === 'java') return;
    describe('a follow-up as the child of a workflow', () => {
      const project = `${projectId}-child`;
      /** The parent's workflow id, which is the key of its follow-up. */
      const idOf = (jobId: string) => `${name}-${jobId}`;
      const parent = (jobId: string) => runProgram(1, [project, jobId, idOf(jobId), 'Add tests.']);
      const followUpOf = (jobId: string) => stack.followUps.handle(`follow-up/${project}/${jobId}/${idOf(jobId)}`);
      const isIn = (state: string, jobId: string) =>
        eventually(`the follow-up is ${state}`, async () => (await followUpOf(jobId).describe()).state === state);
      const messagesTo = (jobId: string) => stack.simulator.ledger.filter((message) => message.jobId === jobId).length;

      test('gives its parent the result, and an error that sends nothing if the key was used', async () => {
        stack.simulator.addJob({ projectId: project, jobId: 'child' });
        const answer = { status: 'completed', prLink: prLinkOf('child', project) };
        expect(await parent('child')).toEqual({ exitCode: 0, answer });
        await expect(parent('child')).rejects.toThrow(/already started/i);
        expect(messagesTo('child')).toBe(1);
      });

      test('gives its parent the type of its failure, and says that nothing was delivered', async () => {
        stack.simulator.addJob({ projectId: project, jobId: 'gone', status: 'archived' });
        expect(await parent('gone')).toEqual({ exitCode: 0, answer: { failure: 'JobArchived', delivered: 'no' } });
      });

      test('ends as Canceled with its parent if that is cancelled before the send, and sends nothing', async () => {
        stack.simulator.addJob({ projectId: project, jobId: 'early' });
        await stack.followUps.budget(project).pause();
        const ended = expect(parent('early')).rejects.toThrow(/cancel/i);
        await isIn('blocked', 'early');
        const workflow = stack.client.workflow.getHandle(idOf('early'));
        await workflow.cancel();
        await ended;
        expect((await workflow.describe()).status.name).toBe('CANCELLED');
        expect((await followUpOf('early').describe()).status).toBe('cancelled');
        expect(messagesTo('early')).toBe(0);
        await stack.followUps.budget(project).resume();
      });

      test('reports the delivery to a parent that is cancelled after the send', async () => {
        stack.simulator.addJob({ projectId: project, jobId: 'late', behaviour: { neverEnds: true } });
        const ended = parent('late');
        await isIn('polling', 'late');
        await stack.client.workflow.getHandle(idOf('late')).cancel();
        expect(await ended).toEqual({ exitCode: 0, answer: { failure: 'Cancelled', delivered: 'yes' } });
      });
    });
  });
}
