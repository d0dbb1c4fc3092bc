import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { loadConfig } from '../../src/config/index.js';
import { budgetTaskQueue, DEFAULT_TASK_QUEUE } from '../../src/contract/index.js';
import { shutdownForceMs } from '../../src/worker/worker-options.js';
import { tlsFile } from '../agent-jobs/support/peer.js';
import { type KubernetesTools, resolveKubernetesTools } from '../support/kubernetes-tools.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { imageName, knownSettings, repositoryPath } from './support.js';

/** The fields of the worker's Deployment that tests use. Its own schema checks it. */
interface Deployment {
  replicas?: number;
  selector: { matchLabels: Record<string, string> };
  template: { metadata: { labels: Record<string, string> }; spec: Pod };
}
interface Pod {
  terminationGracePeriodSeconds: number;
  securityContext: unknown;
  volumes: { secret?: { defaultMode: number } }[];
  containers: [{ image: string; securityContext: unknown; volumeMounts: { mountPath: string; readOnly?: boolean }[] }];
}
interface Manifest {
  kind: string;
  metadata: { name: string };
  spec?: unknown;
  data?: Record<string, string>;
}

const overlays = ['base', 'overlays/production', 'overlays/keda'];

describeWith(await findMissing(['kubernetes-tools']))('the Kubernetes manifests', () => {
  let tools: KubernetesTools;
  const texts = new Map<string, string>();
  beforeAll(async () => {
    tools = await resolveKubernetesTools();
    const [command, ...args] = tools.kustomize;
    for (const overlay of overlays) {
      const path = repositoryPath(`deploy/kubernetes/${overlay}`);
      const { status, stdout, stderr } = spawnSync(command, [...args, path], { encoding: 'utf8' });
      expect(status, stderr).toBe(0);
      texts.set(overlay, stdout);
    }
  });

  const manifestsOf = (overlay: string) =>
    parseAllDocuments(texts.get(overlay) ?? '').map((document) => document.toJS() as Manifest);
  const find = (overlay: string, kind: string) => {
    const found = manifestsOf(overlay).filter((manifest) => manifest.kind === kind);
    expect(found, `${kind} of ${overlay}`).toHaveLength(1);
    return found[0] as Manifest;
  };
  const deploymentOf = (overlay: string) => find(overlay, 'Deployment').spec as Deployment;
  const podOf = (overlay: string) => deploymentOf(overlay).template.spec;
  const settingsOf = (overlay: string) => find(overlay, 'ConfigMap').data ?? {};

  test.each(overlays)('%s conforms to the schemas of Kubernetes, KEDA and the Prometheus Operator', (overlay) => {
    const conform = (input: string) =>
      spawnSync(tools.kubeconform, ['-strict', '-summary', '-schema-location', tools.schemaLocation, '-'], {
        input,
        encoding: 'utf8',
      });
    const text = texts.get(overlay) ?? '';
    const { stdout } = conform(text);
    expect(stdout).toContain(`Valid: ${manifestsOf(overlay).length}, Invalid: 0, Errors: 0, Skipped: 0`);
    // An API server drops unknown fields silently.
    expect(conform(text.replace('terminationGracePeriodSeconds: 90', 'gracePeriod: 90')).status).not.toBe(0);
  });

  test.each(overlays)('%s gives a worker settings that it knows, with valid values', async (overlay) => {
    const settings = settingsOf(overlay);
    expect(Object.keys(settings).filter((name) => !knownSettings.has(name))).toEqual([]);
    const directory = await mkdtemp(join(tmpdir(), 'mounted-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    // The contents of the secrets, at their mount paths.
    const files: Record<string, string> = {
      '/run/keys/api-keys.json': JSON.stringify({ demo: 'adm_a-key-for-tests' }),
      '/run/temporal-tls/tls.crt': tlsFile('server.pem'),
      '/run/temporal-tls/tls.key': tlsFile('server.key'),
      '/run/temporal-tls/ca.crt': tlsFile('ca.pem'),
    };
    for (const [path, content] of Object.entries(files)) {
      await mkdir(join(directory, dirname(path)), { recursive: true });
      await writeFile(join(directory, path), content, { mode: 0o440 });
    }
    const mounts = podOf(overlay).containers[0].volumeMounts.map(({ mountPath }) => mountPath);
    const paths = Object.entries(settings).filter(([name]) => /_(FILE|PATH)$/.test(name));
    for (const [name, path] of paths) expect(mounts, name).toContain(dirname(path));
    const moved = Object.fromEntries(paths.map(([name, path]) => [name, join(directory, path)]));
    const config = loadConfig({ ...settings, ...moved });
    expect(config).toMatchObject({ status: { host: '0.0.0.0', port: 9464 }, warnings: [] });
    const hasTls = overlay !== 'base';
    expect(typeof config.temporal.connectionOptions().tls).toBe(hasTls ? 'object' : 'undefined');
    const { terminationGracePeriodSeconds } = podOf(overlay);
    expect(terminationGracePeriodSeconds * 1_000).toBeGreaterThan(shutdownForceMs(config));
  });

  test.each(overlays)('%s holds no secret, and its worker is not root and writes only to /tmp', (overlay) => {
    expect(manifestsOf(overlay).map(({ kind }) => kind)).not.toContain('Secret');
    expect(Object.keys(settingsOf(overlay))).not.toContain('AGENT_JOBS_API_KEY');
    // A file that is mounted by its path stays the one it was when the secret changes.
    expect(texts.get(overlay)).not.toContain('subPath');
    const { securityContext, volumes, containers } = podOf(overlay);
    const seccompProfile = { type: 'RuntimeDefault' };
    expect(securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000, seccompProfile });
    const [worker] = containers;
    const capabilities = { drop: ['ALL'] };
    const locked = { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities };
    expect(worker.securityContext).toEqual(locked);
    const writable = worker.volumeMounts.filter(({ readOnly }) => readOnly !== true);
    expect(writable.map(({ mountPath }) => mountPath)).toEqual(['/tmp']);
    // Only the owner and the group of the pod may read a file of keys.
    for (const { secret } of volumes) if (secret) expect(secret.defaultMode).toBe(0o440);
  });

  test('the pods run this version, have probes at the status server, and match every selector', () => {
    const { selector, template } = deploymentOf('overlays/keda');
    const probe = (path: string) => ({ httpGet: { path, port: 'status' } });
    expect(template.spec.containers[0]).toMatchObject({
      image: expect.stringMatching(new RegExp(`/${imageName}$`)) as string,
      ports: [{ name: 'status', containerPort: 9464 }],
      ...{ startupProbe: probe('/healthz'), livenessProbe: probe('/healthz'), readinessProbe: probe('/readyz') },
    });
    expect(podOf('base').containers[0].image).toBe(imageName);
    expect(template.metadata.labels).toMatchObject(selector.matchLabels);
    for (const kind of ['PodDisruptionBudget', 'PodMonitor'])
      expect(find('overlays/keda', kind).spec).toMatchObject({ selector });
  });

  test('KEDA scales the workers by their task queues, and alone sets the number of replicas', () => {
    const settings = settingsOf('overlays/keda');
    expect(deploymentOf('overlays/keda').replicas).toBeUndefined();
    const where = { endpoint: settings['TEMPORAL_ADDRESS'], namespace: settings['TEMPORAL_NAMESPACE'] };
    const { name } = find('overlays/keda', 'TriggerAuthentication').metadata;
    const trigger = (taskQueue: string) => ({ metadata: { ...where, taskQueue }, authenticationRef: { name } });
    expect(find('overlays/keda', 'ScaledObject').spec).toMatchObject({
      scaleTargetRef: { name: find('overlays/keda', 'Deployment').metadata.name },
      triggers: [trigger(DEFAULT_TASK_QUEUE), trigger(budgetTaskQueue(DEFAULT_TASK_QUEUE))],
    });
  });
});
