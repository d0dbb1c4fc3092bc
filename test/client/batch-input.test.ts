import { describe, expect, test } from 'vitest';
import { countInPiece, checkBatch, type StartBatchInput } from '../../src/client/hand-over.js';
import { InvalidInputError } from '../../src/client/index.js';
import { MAX_PIECE_BYTES } from '../../src/contract/index.js';

const item = (index: number, promptLength = 10) => ({
  projectId: 'demo',
  jobId: `job-${index}`,
  prompt: 'x'.repeat(promptLength),
});
const list = (count: number, promptLength?: number) =>
  Array.from({ length: count }, (_, index) => item(index, promptLength));
const digest = (input: StartBatchInput) => checkBatch(input).digest;

describe('a batch is handed over', () => {
  test('whole if it fits into one payload', () => {
    const items = list(100);
    expect(checkBatch({ id: 'b', items, maxOpen: 7 })).toMatchObject({
      firstInput: { items, maxOpen: 7 },
      isInPieces: false,
    });
    const jobIds = Array.from({ length: 10_000 }, (_, index) => `job-${index}`);
    expect(checkBatch({ id: 'b', projectId: 'demo', prompt: 'x', jobIds })).toMatchObject({
      firstInput: { projectId: 'demo', jobIds },
      isInPieces: false,
    });
  });

  test('in pieces of at most 256 KiB that hold every item once', () => {
    const items = list(10_000, 500);
    const { firstInput, isInPieces } = checkBatch({ id: 'b', items });
    expect(isInPieces).toBe(true);
    expect(firstInput).toMatchObject({ open: true });
    let offset = 0;
    let pieces = 0;
    while (offset < items.length) {
      const piece = items.slice(offset, offset + countInPiece(items, offset));
      expect(Buffer.byteLength(JSON.stringify(piece))).toBeLessThanOrEqual(MAX_PIECE_BYTES);
      if (offset === 0) expect('items' in firstInput && firstInput.items).toEqual(piece);
      offset += piece.length;
      pieces++;
    }
    expect(offset).toBe(10_000);
    expect(pieces).toBeLessThan(30);
  });

  test('with a piece of its own for an item that is larger than that', () => {
    const items = [item(0, 262_144), item(1, 262_144), item(2)];
    expect(countInPiece(items, 0)).toBe(1);
    expect(countInPiece(items, 1)).toBe(1);
    expect(countInPiece(items, 2)).toBe(1);
  });

  test('as items if a list of jobs is too long for the short form', () => {
    const jobIds = Array.from({ length: 3_000 }, (_, index) => `job-${'x'.repeat(100)}-${index}`);
    const { firstInput, items } = checkBatch({ id: 'b', projectId: 'demo', prompt: 'x', jobIds, maxOpen: 3 });
    expect(items.length).toBe(3_000);
    expect(firstInput).toMatchObject({
      open: true,
      maxOpen: 3,
      items: expect.arrayContaining([{ projectId: 'demo', jobId: jobIds[0], prompt: 'x' }]),
    });
  });
});

describe('two batches are the same', () => {
  const items = list(3);
  const same = digest({ id: 'b', items });

  test('whatever the order of their fields, in the short form, and with settings that equal the defaults', () => {
    const reordered = items.map(({ projectId, jobId, prompt }) => ({ prompt, jobId, projectId }));
    expect(digest({ id: 'b', items: reordered })).toBe(same);
    const jobIds = items.map(({ jobId }) => jobId);
    expect(digest({ id: 'b', projectId: 'demo', prompt: 'x'.repeat(10), jobIds })).toBe(same);
    expect(digest({ id: 'b', items, maxOpen: 50, defaults: { lane: 'batch' } })).toBe(same);
  });

  test('but not with another prompt, item, order of items, setting, maxOpen or brake', () => {
    const others: StartBatchInput[] = [
      { id: 'b', items: list(3, 11) },
      { id: 'b', items: list(4) },
      { id: 'b', items: items.toReversed() },
      { id: 'b', items, defaults: { settleTime: '5s' } },
      { id: 'b', items, maxOpen: 49 },
      { id: 'b', items, canary: 1 },
      { id: 'b', items, maxFailures: 1 },
      { id: 'b', items: items.map((each) => ({ ...each, poll: { initialInterval: '1s' } })) },
    ];
    expect(new Set([same, ...others.map(digest)]).size).toBe(others.length + 1);
  });
});

test('an invalid batch is refused, and its bad fields are named', () => {
  const plan = () => checkBatch({ id: 'a b', items: [{ ...item(0), prompt: '' }], maxOpen: 0 });
  expect(plan).toThrow(InvalidInputError);
  expect(plan).toThrow(/id: must be .*; maxOpen: /);
});

test('a batch that could need more than 800 parts is refused before any piece is sent', () => {
  // 790 parts could hold the items, but a piece that comes late shares no part with another.
  const jobIds = Array.from({ length: 395_000 }, (_, index) => `job-${index}`);
  const plan = () => checkBatch({ id: 'b', projectId: 'demo', prompt: 'x', jobIds });
  expect(plan).toThrow(/jobIds: the batch is too long: .* more than 800 parts/);
});
