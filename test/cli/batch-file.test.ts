import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { BadLinesError, type BatchFileOptions, readBatchFile } from '../../src/cli/batch-file.js';
import { openSource } from '../../src/cli/input-options.js';

type Content = string | Buffer | Iterable<Buffer>;
const line = (jobId: string, prompt = 'Add tests.') => JSON.stringify({ projectId: 'p', jobId, prompt });

function read(content: Content, options?: BatchFileOptions) {
  const chunks = typeof content === 'string' || Buffer.isBuffer(content) ? [Buffer.from(content)] : content;
  return readBatchFile({ name: 'list.jsonl', chunks: Readable.from(chunks) }, options);
}

async function refusal(content: Content): Promise<BadLinesError> {
  const error: unknown = await read(content).catch((reason: unknown) => reason);
  if (!(error instanceof BadLinesError)) throw new Error('the file was accepted', { cause: error });
  return error;
}

test('items have their line numbers despite blank lines, a byte order mark, CRLF and a missing final line break', async () => {
  const bytes = Buffer.from(`\ufeff${line('a', 'Zeile ü €, 😀')}\r\n\r\n  \t\n${line('b')}\n${line('c')}`);
  const expected = [
    { line: 1, input: { projectId: 'p', jobId: 'a', prompt: 'Zeile ü €, 😀' } },
    { line: 4, input: { projectId: 'p', jobId: 'b', prompt: 'Add tests.' } },
    { line: 5, input: { projectId: 'p', jobId: 'c', prompt: 'Add tests.' } },
  ];
  expect(await read(bytes)).toEqual(expected);
  // However the bytes are cut into chunks.
  expect(await read(Array.from(bytes, (byte) => Buffer.from([byte])))).toEqual(expected);
});

test('the longest prompt is accepted, however it is escaped; a longer line is not even read', async () => {
  const escaped = `{"projectId":"p","jobId":"a","prompt":"${'\\u0001'.repeat(262_144)}"}`;
  expect((await read(escaped))[0]?.input.prompt.length).toBe(262_144);
  const lengthOf = (bytes: number) => [Buffer.from(`${line('a')}\n`), Buffer.alloc(bytes, 'x'), Buffer.from('\n{}\n')];
  const { issues } = await refusal(lengthOf(1_638_401));
  expect(issues[0]).toEqual({ line: 2, field: '', message: 'longer than 1638400 bytes' });
  expect(issues[1]).toMatchObject({ line: 3, field: 'projectId' });
  expect((await refusal(lengthOf(1_638_400))).issues[0]?.message).toMatch(/^not JSON: /);
});

const WAY_TO_WRITE_IT = "; write one input per line, as jq -c '.[]' or '.items[]' does";

test.each<[what: string, content: Content, said: string]>([
  ['a JSON list', `[${line('a')},${line('b')}]`, WAY_TO_WRITE_IT],
  ['a JSON document', `{"items":[${line('a')}]}`, WAY_TO_WRITE_IT],
  ['an indented JSON list', `[\n${line('a')}\n]`, WAY_TO_WRITE_IT],
  ['an indented input', JSON.stringify(JSON.parse(line('a')), null, 2), WAY_TO_WRITE_IT],
  ['half of a surrogate pair', line('a', '\ud83d'), 'line 1: prompt: must be Unicode text'],
  ['bytes that are not UTF-8', Buffer.from(`${line('a')}\n"\xff\n`, 'latin1'), 'line 2: not UTF-8'],
  ['UTF-16', Buffer.from(`\ufeff${line('a')}\n`, 'utf16le'), 'UTF-16'],
  ['more levels than the stack', `{"projectId":${'['.repeat(200_000)}${']'.repeat(200_000)}}`, 'line 1: projectId: '],
])('a file with %s is refused', async (_what, content, said) => {
  expect((await refusal(content)).message).toContain(said);
});

test('every bad line is named with every bad field, a duplicate with both lines, but at most 50 lines', async () => {
  const content = [line('a'), '{"projectId":"..","jobId":"a b"}', '{"a":', line('a'), '7', '{"prompt":"","colour":1}'];
  const { message, issues, badLineCount } = await refusal(content.join('\n'));
  expect(badLineCount).toBe(5);
  expect(issues.map(({ line: number, field }) => `${number} ${field}`)).toEqual([
    ...['2 projectId', '2 jobId', '2 prompt', '3 ', '4 ', '5 ', '6 projectId', '6 jobId', '6 prompt', '6 colour'],
  ]);
  expect(message).toMatch(
    /^list.jsonl: 5 of 6 lines invalid, so nothing was started\n {2}line 2: projectId: must be .* \(given ".."\); jobId: .*; prompt: is required\n {2}line 3: not JSON/,
  );
  expect(issues[4]?.message).toContain('as line 1 ');
  expect(await read(`${line('a')}\n${line('a')}\n`, { allowDuplicates: true })).toHaveLength(2);
  const many = await refusal('{}\n'.repeat(1_000));
  expect([many.badLineCount, new Set(many.issues.map(({ line: number }) => number)).size]).toEqual([1_000, 50]);
  expect(many.message.split('\n').slice(51)).toEqual(['  and 950 more invalid lines']);
});

test('a file without items, a missing file and a directory are refused', async () => {
  await expect(read('\n\r\n')).rejects.toThrow('list.jsonl has no items');
  const open = (path: string) => readBatchFile(openSource('batch', path, process));
  await expect(open('/nowhere/list.jsonl')).rejects.toThrow('batch: cannot read /nowhere/list.jsonl: ENOENT');
  await expect(open('/')).rejects.toThrow('batch: cannot read /: EISDIR');
});
