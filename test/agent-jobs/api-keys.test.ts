import { mkdtemp, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createApiKeys } from '../../src/agent-jobs/index.js';
import { maskSecrets } from '../../src/secrets/secrets.js';
import { JOB, send, useClient, usePeer, writes } from './support/harness.js';
import { respond } from './support/peer.js';

async function useDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'api-keys-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  return directory;
}

test('a rotated key file is used by the very next message', async () => {
  const keyFile = join(await useDirectory(), 'key');
  const peer = await usePeer(writes(respond(200, JOB)));
  await writeFile(keyFile, 'adm_key-0\n');
  const client = useClient(peer.url, { keys: createApiKeys({ keyFile }) });
  for (let round = 0; round < 20; round++) {
    // All keys have the same length, so only the time and the inode show a change.
    const key = `adm_key-${round % 10}`;
    const isRenamed = round % 2 === 1;
    await writeFile(isRenamed ? `${keyFile}.new` : keyFile, `${key}\n`);
    if (isRenamed) await rename(`${keyFile}.new`, keyFile);
    expect((await send(client)).outcome).toBe('sent');
    expect(peer.requests.at(-1)?.headers.get('authorization')).toBe(`Bearer ${key}`);
  }
});

test('a rotated key, like those before it, is masked in every text of the process', async () => {
  const directory = await useDirectory();
  const [keyFile, keysFile] = [join(directory, 'key'), join(directory, 'keys.json')];
  const keys = createApiKeys({ keyFile, keysFile });
  const masked = (key: string) => maskSecrets(`the key ${key} in ${JSON.stringify({ key })}`);
  const used: string[] = [];
  for (let round = 10; round < 70; round++) {
    const [single, own] = [`adm_single"${round}`, `adm_own"${round}`];
    await writeFile(keyFile, single);
    await writeFile(keysFile, JSON.stringify({ own }));
    expect([await keys.forProject('another'), await keys.forProject('own')]).toEqual([single, own]);
    used.push(single, own);
  }
  expect(new Set(used.map(masked))).toEqual(new Set(['the key [masked] in {"key":"[masked]"}']));
});

test('a key file behind a symbolic link that is swapped is read again', async () => {
  const directory = await useDirectory();
  for (const name of ['one', 'two']) {
    await writeFile(join(directory, name), `adm_key-${name}`);
    await utimes(join(directory, name), 1_000_000, 1_000_000);
  }
  const keyFile = join(directory, 'key');
  await symlink('one', keyFile);
  const keys = createApiKeys({ keyFile });
  expect(await keys.forProject('p')).toBe('adm_key-one');
  await symlink('two', `${keyFile}.new`);
  await rename(`${keyFile}.new`, keyFile);
  expect(await keys.forProject('p')).toBe('adm_key-two');
});

test('a keys file gives each project its own key, and a literal key serves the others', async () => {
  const keysFile = join(await useDirectory(), 'keys.json');
  await writeFile(keysFile, JSON.stringify({ a: 'adm_key-of-a', b: 'adm_key-of-b' }));
  for (const key of [undefined, 'adm_literal']) {
    const keys = createApiKeys({ keysFile, key });
    expect([await keys.forProject('a'), await keys.forProject('b')]).toEqual(['adm_key-of-a', 'adm_key-of-b']);
    for (const other of ['c', 'constructor', '__proto__', 'toString']) expect(await keys.forProject(other)).toBe(key);
  }
});

test('a half-written, wrong or missing keys file leaves the last good keys in use, and is reported once', async () => {
  const keysFile = join(await useDirectory(), 'keys.json');
  const onProblem = vi.fn<(file: string, problem: string | undefined) => void>();
  const keys = createApiKeys({ keysFile, onProblem });
  const good = JSON.stringify({ a: 'adm_key-of-a' });
  expect(await keys.forProject('a')).toBeUndefined();
  expect(onProblem.mock.lastCall).toEqual([keysFile, 'cannot be read (ENOENT)']);
  await writeFile(keysFile, good);
  expect(await keys.forProject('a')).toBe('adm_key-of-a');
  expect(onProblem.mock.lastCall).toEqual([keysFile, undefined]);
  for (const [content, problem] of [
    [good.slice(0, 15), /not JSON/],
    ['["adm_key-of-a"]', /must be an object/],
    ['', /not JSON/],
    [JSON.stringify({ a: 'bad secret' }), /"a": must be at least 8/],
    [JSON.stringify({ 'a/../b': 'adm_key-of-a' }), /not a project id/],
    [undefined, /ENOENT/],
  ] as const) {
    onProblem.mockClear();
    await (content === undefined ? rm(keysFile) : writeFile(keysFile, content));
    for (let uses = 0; uses < 3; uses++) expect(await keys.forProject('a')).toBe('adm_key-of-a');
    expect(onProblem.mock.calls).toEqual([[keysFile, expect.stringMatching(problem)]]);
    expect(onProblem.mock.lastCall?.[1]).not.toMatch(/adm_key|bad secret/);
    expect(await keys.problem()).toMatch(problem);
  }
  await writeFile(keysFile, JSON.stringify({ b: 'adm_key-of-b' }));
  expect(await keys.forProject('a')).toBeUndefined();
  expect(await keys.forProject('b')).toBe('adm_key-of-b');
  expect(onProblem.mock.lastCall).toEqual([keysFile, undefined]);
});
