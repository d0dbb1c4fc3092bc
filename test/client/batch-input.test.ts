import { expect, test } from 'vitest';
import { checkBatch, countInPiece, type StartBatchInput } from '../../src/client/hand-over.js';
import { InvalidInputError } from '../../src/client/index.js';
import { MAX_PIECE_BYTES } from '../../src/contract/index.js';

const item = (index: number, promptLength = 10) => ({
  ...{ projectId: 'demo', jobId: `job-${index}`, prompt: 'x'.repeat(promptLength) },
});
const list = (count: number, promptLength?: number) =>
  Array.from({ length: count }, (_, index) => item(index, promptLength));
const short = (jobIds: string[]) => ({ id: 'b', projectId: 'demo', prompt: 'x'.repeat(10), jobIds });

test('a batch is handed over whole if it fits into one payload', () => {
  const items = list(100);
  const input = { id: 'b', items, maxOpen: 7, canary: 2, maxFailures: '5%' };
  expect(checkBatch(input)).toMatchObject({ firstInput: { items, maxOpen: 7, canary: 2 }, isInPieces: false });
  const batch = short(list(3_000).map(({ jobId }) => jobId));
  expect(checkBatch(batch)).toMatchObject({ firstInput: { jobIds: batch.jobIds }, isInPieces: false });
});

test.each([
  ['items', 2_000, { items: list(2_000, 500) }],
  ['items that are larger than a piece', 3, { items: [item(0, 262_144), item(1, 262_144), item(2)] }],
  ['jobs that are too many for the short form', 3_000, short(list(3_000).map(({ jobId }) => jobId.padEnd(100, 'x')))],
])('%s are handed over in pieces of at most 256 KiB, each item once', (what, count, input) => {
  const limits = { maxOpen: 7, canary: 2, maxFailures: '5%', defaults: { settleTime: '5s' } };
  const { firstInput, items, isInPieces } = checkBatch({ id: 'b', ...input, ...limits });
  expect({ isInPieces, count: items.length }).toEqual({ isInPieces: true, count });
  const pieces = [];
  for (let offset = 0; offset < count;) {
    const piece = items.slice(offset, offset + countInPiece(items, offset));
    const isTooLong = Buffer.byteLength(JSON.stringify(piece)) > MAX_PIECE_BYTES;
    expect(isTooLong, what).toBe(isTooLong && piece.length === 1);
    pieces.push(piece);
    offset += piece.length;
  }
  expect(pieces.flat()).toEqual(items);
  expect(pieces.length).toBeLessThanOrEqual(count === 3 ? 3 : 6);
  expect(firstInput).toEqual({ ...limits, items: pieces[0], open: true });
});

test('two batches have the same digest in any order and form of their fields, but not if a field differs', () => {
  const items = list(3);
  const digest = (input: StartBatchInput) => checkBatch(input).digest;
  const same: StartBatchInput[] = [
    { id: 'b', items },
    { id: 'b', items: items.map(({ projectId, jobId, prompt }) => ({ prompt, jobId, projectId })) },
    { id: 'b', items, maxOpen: 50, defaults: { lane: 'batch' } },
    short(items.map(({ jobId }) => jobId)),
  ];
  const others = [
    ...[{ items: list(3, 11) }, { items: list(4) }, { items: items.toReversed() }],
    ...[{ defaults: { settleTime: '5s' } }, { maxOpen: 49 }, { canary: 1 }, { maxFailures: 1 }],
    { items: items.map((each) => ({ ...each, poll: { initialInterval: '1s' } })) },
  ].map((change): StartBatchInput => ({ id: 'b', items, ...change }));
  expect(new Set(same.map(digest)).size).toBe(1);
  expect(new Set([...same, ...others].map(digest)).size).toBe(others.length + 1);
});

test('an invalid batch is refused, and its bad fields are named', () => {
  const check = () => checkBatch({ id: 'a b', items: [{ ...item(0), prompt: '' }], maxOpen: 0 });
  expect(check).toThrow(InvalidInputError);
  expect(check).toThrow(/id: must be .*; maxOpen: /);
});

test('a batch that could need more than 800 parts is refused before any piece is sent', { tags: 'long' }, () => {
  // 790 parts could hold the items, but a piece that comes late shares no part with another.
  const check = () => checkBatch(short(list(395_000).map(({ jobId }) => jobId)));
  expect(check).toThrow(/jobIds: the batch is too long: .* more than 800 parts/);
});
