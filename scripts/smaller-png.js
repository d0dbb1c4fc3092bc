// Makes a screenshot smaller with a palette of 256 colours, which loses only a few shades at the edges of letters.
import { crc32, deflateSync, inflateSync } from 'node:zlib';

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const COLOURS = 256;
/** Bytes of a pixel in Chromium's pictures: red, green, blue. */
const PIXEL = 3;

/**
 * @param {Buffer} png with 8 bits a channel, without transparency, not interlaced
 * @returns {Buffer} the same picture with a palette
 */
export function smallerPng(png) {
  const chunks = readChunks(png);
  const header = chunks.find(({ type }) => type === 'IHDR').data;
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  if (header[8] !== 8 || header[9] !== 2 || header[12] !== 0) throw new Error('not a picture of three plain channels');
  const pixels = unfilter(inflateSync(Buffer.concat(dataOf(chunks, 'IDAT'))), width * PIXEL, height);
  const counts = new Map();
  for (let at = 0; at < pixels.length; at += PIXEL) {
    const colour = pixels.readUIntBE(at, PIXEL);
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const palette = [...counts.keys()].sort((one, other) => counts.get(other) - counts.get(one)).slice(0, COLOURS);
  const indexOf = new Map([...counts.keys()].map((colour) => [colour, nearest(palette, colour)]));
  // Each line begins with the number of its filter. 0 is none.
  const lines = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      lines[y * (width + 1) + 1 + x] = indexOf.get(pixels.readUIntBE((y * width + x) * PIXEL, PIXEL));
    }
  }
  const ofPalette = Buffer.from(header);
  ofPalette[9] = 3;
  const colours = Buffer.alloc(palette.length * PIXEL);
  palette.forEach((colour, index) => colours.writeUIntBE(colour, index * PIXEL, PIXEL));
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', ofPalette),
    chunk('PLTE', colours),
    chunk('IDAT', deflateSync(lines, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function readChunks(png) {
  const chunks = [];
  for (let at = SIGNATURE.length; at < png.length;) {
    const length = png.readUInt32BE(at);
    chunks.push({ type: png.toString('latin1', at + 4, at + 8), data: png.subarray(at + 8, at + 8 + length) });
    at += length + 12;
  }
  return chunks;
}

function dataOf(chunks, wanted) {
  return chunks.filter(({ type }) => type === wanted).map(({ data }) => data);
}

/** Undoes the filter of each line, see https://www.w3.org/TR/png-3/#9Filters. */
function unfilter(lines, lineBytes, height) {
  const pixels = Buffer.alloc(lineBytes * height);
  for (let y = 0; y < height; y++) {
    const filter = lines[y * (lineBytes + 1)];
    for (let x = 0; x < lineBytes; x++) {
      const at = y * lineBytes + x;
      const left = x >= PIXEL ? pixels[at - PIXEL] : 0;
      const up = y > 0 ? pixels[at - lineBytes] : 0;
      const upLeft = x >= PIXEL && y > 0 ? pixels[at - lineBytes - PIXEL] : 0;
      const predicted = [0, left, up, (left + up) >> 1, paeth(left, up, upLeft)][filter];
      pixels[at] = (lines[y * (lineBytes + 1) + 1 + x] + predicted) & 0xff;
    }
  }
  return pixels;
}

function paeth(left, up, upLeft) {
  const [byLeft, byUp, byBoth] = [up - upLeft, left - upLeft, left + up - 2 * upLeft].map(Math.abs);
  if (byLeft <= byUp && byLeft <= byBoth) return left;
  return byUp <= byBoth ? up : upLeft;
}

function nearest(palette, colour) {
  const exact = palette.indexOf(colour);
  if (exact !== -1) return exact;
  const distance = (other) =>
    [16, 8, 0].reduce((sum, shift) => sum + (((colour >> shift) & 0xff) - ((other >> shift) & 0xff)) ** 2, 0);
  return palette.reduce((best, other, index) => (distance(other) < distance(palette[best]) ? index : best), 0);
}

function chunk(type, data) {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const whole = Buffer.alloc(named.length + 8);
  whole.writeUInt32BE(data.length, 0);
  named.copy(whole, 4);
  whole.writeUInt32BE(crc32(named), named.length + 4);
  return whole;
}
