/** One metric with its samples, as Prometheus' text format (version 0.0.4) has it. */
export interface Metric {
  name: string;
  type: 'gauge' | 'counter';
  help: string;
  samples: Sample[];
}

/** One time series' value now. */
export interface Sample {
  labels?: Readonly<Record<string, string>>;
  value: number;
}

/** The metrics in Prometheus' text format; those without a sample are left out. */
export function prometheusText(metrics: readonly Metric[]): string {
  return metrics
    .filter(({ samples }) => samples.length > 0)
    .map(({ name, type, help, samples }) => {
      const lines = samples.map(({ labels = {}, value }) => `${name}${labelText(labels)} ${value}`);
      return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines, ''].join('\n');
    })
    .join('');
}

function labelText(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escape(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escape(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
