import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';

/** The path of a file of the repository. */
export function repositoryPath(path: string): string {
  return fileURLToPath(new URL(`../../${path}`, import.meta.url));
}

/** The text of a file of the repository. */
export function repositoryText(path: string): string {
  return readFileSync(repositoryPath(path), 'utf8');
}

const alertsSchema = z.object({
  groups: z.array(
    z.object({
      name: z.string(),
      rules: z.array(
        z.strictObject({
          alert: z.string(),
          expr: z.string(),
          for: z.string(),
          labels: z.strictObject({ severity: z.string() }),
          annotations: z.strictObject({ summary: z.string(), runbook: z.string() }),
        }),
      ),
    }),
  ),
});

/** The alerts of deploy/prometheus/alerts.yaml, in its order. */
export const alerts = alertsSchema
  .parse(parse(repositoryText('deploy/prometheus/alerts.yaml')))
  .groups.flatMap(({ rules }) => rules);

/** The paths of the dashboards. */
export const dashboardFiles = ['operators', 'project'].map((name) => repositoryPath(`deploy/grafana/${name}.json`));

const targetsSchema = z.object({
  panels: z.array(z.object({ targets: z.array(z.object({ expr: z.string() })).default([]) })),
  templating: z.object({ list: z.array(z.object({ query: z.union([z.string(), z.object({ query: z.string() })]) })) }),
});

/** The PromQL of a dashboard, with Grafana's variables replaced by values. */
export function expressionsOf(file: string): string[] {
  const { panels, templating } = targetsSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
  const ofPanels = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
  // `label_values(METRIC, LABEL)` is not PromQL but Grafana's own.
  const ofVariables = templating.list.flatMap(({ query }) => {
    const [, metric] = /^label_values\((\w+), \w+\)$/.exec(typeof query === 'string' ? query : query.query) ?? [];
    return metric === undefined ? [] : [metric];
  });
  return [...ofPanels, ...ofVariables].map((text) =>
    text.replaceAll('$__rate_interval', '1m').replaceAll('$project', 'demo'),
  );
}

/** The names of the metrics in PromQL. The series of a histogram count as the histogram. */
export function metricsIn(expression: string): string[] {
  const names = expression.match(/\b(?:follow_up|temporal|process|nodejs)_\w+/g) ?? [];
  return names.map((name) => name.replace(/_(?:bucket|count|sum)$/, ''));
}
