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

/** The budget metrics of one project, without the common prefix: `used`, `paused{reason="operator"}` and so on. */
export function budgetSamples(text: string, projectId: string): Record<string, number> {
  const found: Record<string, number> = {};
  for (const [series, value] of samplesOf(text)) {
    const match = /^follow_up_budget_(\w+)\{project="([^"]*)"(?:,(.*))?\}$/.exec(series);
    if (match?.[1] === undefined || match[2] !== projectId) continue;
    found[match[3] === undefined ? match[1] : `${match[1]}{${match[3]}}`] = value;
  }
  return found;
}
