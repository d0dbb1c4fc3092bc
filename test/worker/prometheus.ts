/** The samples of a text in the Prometheus format, by name and labels as written. */
export function samplesOf(text: string): Map<string, number> {
  const samples = new Map<string, number>();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const space = line.lastIndexOf(' ');
    samples.set(line.slice(0, space), Number(line.slice(space + 1)));
  }
  return samples;
}

/** The sum of the samples of a metric that have all these labels. */
export function sumOf(text: string, name: string, labels: Record<string, string> = {}): number {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  let sum = 0;
  for (const [series, value] of samplesOf(text)) {
    const [, itsName, itsLabels = ''] = /^(\w+)(?:\{(.*)\})?$/.exec(series) ?? [];
    if (itsName === name && wanted.every((pair) => `,${itsLabels},`.includes(`,${pair},`))) sum += value;
  }
  return sum;
}
