import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { openSource } from '../../src/cli/options.js';
import { BadLinesError, type BatchFileOptions, readBatchFile } from '../../src/cli/batch-file.js';

const line = (jobId: string, prompt = 'Add tests.') => JSON.stringify({ projectId: 'p', jobId, prompt });

function read(content: string | Buffer | Iterable<Buffer>, options?: BatchFileOptions) {
  const chunks = typeof content === 'string' || Buffer.isBuffer(content) ? [Buffer.from(content)] : content;
  return readBatchFile({ name: 'list.jsonl', chunks: Readable.from(chunks) }, options);
}

async function refusal(content: string | Buffer | Iterable<Buffer>, options?: BatchFileOptions) {
  const error: unknown = await read(content, options).catch((reason: unknown) => reason);
  if (!(error instanceof BadLinesError)) throw new Error('the file was accepted', { cause: error });
  return error;
}

describe('a file is read', () => {
  test('with its line numbers, past blank lines, a byte order mark, CRLF and a missing final line break', async () => {
    const items = await read(`\ufeff${line('a')}\r\n\r\n  \t\n${line('b')}\n${line('c')}`);
    expect(items.map(({ line: number, input }) => [number, input.jobId])).toEqual([
      [1, 'a'],
      [4, 'b'],
      [5, 'c'],
    ]);
  });

  test('whole, however its bytes are cut into chunks', async () => {
    const bytes = Buffer.from(`\ufeff${line('a', 'Zeile ü €, 😀')}\r\n${line('b')}\n`);
    const items = await read(Array.from(bytes, (byte) => Buffer.from([byte])));
    expect(items.map(({ input }) => input.prompt)).toEqual(['Zeile ü €, 😀', 'Add tests.']);
  });

  test('with the longest prompt that is allowed, however it is escaped', async () => {
    const escaped = `{"projectId":"p","jobId":"a","prompt":"${'\\u0001'.repeat(262_144)}"}`;
    const [item] = await read(escaped);
    expect(item?.input.prompt.length).toBe(262_144);
  });

  test('of 100 MB and 10,000 lines', async () => {
    const prompt = 'x'.repeat(10_000);
    function* chunks() {
      for (let index = 0; index < 10_000; index++) yield Buffer.from(`${line(`job-${index}`, prompt)}\n`);
    }
    const items = await read(chunks());
    expect(items.length).toBe(10_000);
    expect(items.at(-1)).toMatchObject({ line: 10_000, input: { jobId: 'job-9999' } });
  });

  test('as a list of job ids, if the reader is told how to read a line', async () => {
    const items = await read('job-1\njob-2\n', {
      toInput: (text) => ({ projectId: 'p', jobId: text.trim(), prompt: 'x' }),
    });
    expect(items.map(({ input }) => input)).toEqual([
      { projectId: 'p', jobId: 'job-1', prompt: 'x' },
      { projectId: 'p', jobId: 'job-2', prompt: 'x' },
    ]);
  });
});

test.each([
  ['a JSON list', `[${line('a')},${line('b')}]`],
  ['a JSON document', `{"items":[${line('a')}]}`],
  ['an indented JSON list', `[\n${line('a')}\n]`],
  ['an indented input', JSON.stringify(JSON.parse(line('a')), null, 2)],
])('%s is refused with the way to write it', async (_, text) => {
  const message = expect.stringContaining("; write one input per line, as jq -c '.[]' or '.items[]' does");
  expect((await refusal(text)).issues[0]).toEqual({ line: 1, field: '', message });
});

test('a prompt with half of a surrogate pair is refused before it costs a slot', async () => {
  const { message } = await refusal('{"projectId":"p","jobId":"a","prompt":"cut off \\ud83d"}\n');
  expect(message).toContain('line 1: prompt: must be Unicode text: it has half of a surrogate pair');
});

test('a bad id is refused with its line, its field and the rule', async () => {
  const { message } = await refusal(`${line('_a-')}\n${line('a b')}\n`);
  expect(message).toContain(
    'line 2: jobId: must be 1 to 128 of A-Z a-z 0-9 . _ ~ -, not starting with . or ~ (given "a b")',
  );
});

describe('a file is refused', () => {
  test('naming every bad line with every bad field', async () => {
    const { message, issues, badLineCount } = await refusal(
      [line('a'), '{"projectId":"..","jobId":"b"}', '{"a":', line('c'), '7', '{"prompt":"","colour":1}'].join('\n'),
    );
    expect(badLineCount).toBe(4);
    expect(issues.map(({ line: number, field }) => `${number} ${field}`)).toEqual([
      ...['2 projectId', '2 prompt', '3 ', '5 ', '6 projectId', '6 jobId', '6 prompt', '6 colour'],
    ]);
    expect(message).toContain('list.jsonl: 4 of 6 lines invalid, so nothing was started');
    expect(message).toMatch(/line 2: projectId: must be .* \(given ".."\); prompt: .*\(missing\)/);
    expect(message).toContain('line 3: not JSON');
  });

  test('naming both lines of a duplicate, unless duplicates are allowed', async () => {
    const content = [line('a'), line('b'), line('a', 'Something else.'), line('a')].join('\n');
    const { issues } = await refusal(content);
    expect(issues).toMatchObject([{ line: 4, message: expect.stringContaining('as line 1 ') }]);
    expect((await read(content, { allowDuplicates: true })).length).toBe(4);
  });

  test('with a line that is not UTF-8, and the lines after it are still checked', async () => {
    const { issues } = await refusal(
      Buffer.concat([Buffer.from(`${line('a')}\n"\xff`, 'latin1'), Buffer.from(`\n${line('b')}\n{}\n`)]),
    );
    expect(issues[0]).toEqual({ line: 2, field: '', message: 'not UTF-8' });
    expect(issues[1]).toMatchObject({ line: 4, field: 'projectId' });
  });

  test('with a clear message if it is UTF-16', async () => {
    const { issues } = await refusal(Buffer.from(`\ufeff${line('a')}\n`, 'utf16le'));
    expect(issues[0]?.message).toContain('UTF-16');
  });

  test('with a line that is longer than any input', async () => {
    function* chunks() {
      yield Buffer.from(`${line('a')}\n`);
      for (let index = 0; index < 300; index++) yield Buffer.alloc(1_048_576, 'x');
      yield Buffer.from(`\n${line('b')}\n`);
    }
    const { issues, badLineCount } = await refusal(chunks());
    expect(badLineCount).toBe(1);
    expect(issues[0]).toMatchObject({ line: 2, message: expect.stringContaining('longer than') });
  });

  test('naming 50 bad lines in full and the number of the others', async () => {
    const { message, issues, badLineCount } = await refusal('{}\n'.repeat(1_000));
    expect(badLineCount).toBe(1_000);
    expect(new Set(issues.map(({ line: number }) => number)).size).toBe(50);
    expect(message).toContain('and 950 more bad lines');
    expect(message.split('\n').length).toBe(52);
  });

  test('with a line that is nested deeper than the stack', async () => {
    const { badLineCount } = await refusal(`{"projectId":${'['.repeat(200_000)}${']'.repeat(200_000)}}`);
    expect(badLineCount).toBe(1);
  });

  test('without an item, if it is missing, and if it is a directory', async () => {
    await expect(read('\n\r\n')).rejects.toThrow('list.jsonl has no items');
    await expect(readBatchFile(openSource('batch', '/nowhere/list.jsonl', process))).rejects.toThrow(
      'batch: cannot read /nowhere/list.jsonl: ENOENT',
    );
    await expect(readBatchFile(openSource('batch', '/', process))).rejects.toThrow('batch: cannot read /: EISDIR');
  });
});
