import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { alerts, dashboardQueries, repositoryText } from './support.js';

const documented = new Set(
  [...repositoryText('docs/reference/metrics.md').matchAll(/^\| `(\w+)` +\| (?:gauge|counter|histogram) /gm)].map(
    ([, name]) => name ?? '',
  ),
);

const step = z.object({ alertname: z.string(), exp_alerts: z.array(z.unknown()) });
const casesSchema = z.object({ tests: z.array(z.object({ alert_rule_test: z.array(step) })) });

test('every alert has a severity, says what is wrong, and links to its own section of a page', () => {
  expect(alerts.length).toBeGreaterThan(10);
  for (const { alert, for: waits, labels, annotations } of alerts) {
    expect(['critical', 'warning', 'info'], alert).toContain(labels.severity);
    expect(waits, alert).toMatch(/^\d+[mhd]$/);
    expect(annotations.summary, alert).toMatch(/\.$/);
    const [page = '', anchor] = annotations.runbook.split('#');
    expect(anchor).toBe(alert.toLowerCase());
    const [, section = ''] = repositoryText(page).split(`\n## ${alert}\n`);
    for (const part of ['**Meaning.**', '**Look.**', '**Do.**'])
      expect(section.split('\n## ')[0], alert).toContain(part);
  }
});

test('the page about monitoring lists every alert with its severity, and no other', () => {
  const rows = [...repositoryText('docs/how-to/monitor.md').matchAll(/^\| \[(FollowUp\w+)\]\S+ +\| (\w+) /gm)];
  expect(rows.map(([, alert, severity]) => ({ alert, severity }))).toEqual(
    alerts.map(({ alert, labels: { severity } }) => ({ alert, severity })),
  );
});

test('every alert has a case in which it waits and then fires', () => {
  const { tests } = casesSchema.parse(parse(repositoryText('deploy/prometheus/alerts.test.yaml')));
  const fires = (name: string) =>
    tests.some(({ alert_rule_test: steps }) => {
      const [first, second] = steps.filter(({ alertname }) => alertname === name);
      return first?.exp_alerts.length === 0 && second !== undefined && second.exp_alerts.length > 0;
    });
  expect(alerts.map(({ alert }) => alert).filter((name) => !fires(name))).toEqual([]);
});

test('the PrometheusRule has the alerts: "npx vitest run test/deploy -u" writes it', async () => {
  const [, groups = ''] = repositoryText('deploy/prometheus/alerts.yaml').split(/^(?=groups:)/m);
  const rule = [
    '# Made of deploy/prometheus/alerts.yaml: npx vitest run test/deploy -u',
    'apiVersion: monitoring.coreos.com/v1',
    'kind: PrometheusRule',
    'metadata:',
    '  name: follow-up-worker',
    '  labels:',
    '    app.kubernetes.io/name: agent-follow-up',
    '    app.kubernetes.io/component: worker',
    'spec:',
    groups.replace(/^(?=.)/gm, '  '),
  ].join('\n');
  const path = '../../deploy/kubernetes/components/monitoring/prometheus-rule.yaml';
  await expect(rule).toMatchFileSnapshot(fileURLToPath(new URL(path, import.meta.url)));
});

/** The names of the metrics in PromQL. The series of a histogram count as the histogram. */
const metricsIn = (expression: string) =>
  (expression.match(/\b(?:follow_up|temporal|process|nodejs)_\w+/g) ?? []).map((name) =>
    name.replace(/_(?:bucket|count|sum)$/, ''),
  );

test('alerts and the dashboard use only metrics that the reference lists', () => {
  const used = [...alerts.map(({ expr }) => expr), ...dashboardQueries()].flatMap(metricsIn);
  expect(new Set(used).size).toBeGreaterThan(25);
  expect([...new Set(used)].filter((name) => !documented.has(name))).toEqual([]);
});
