import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../src/config/index.js';
import { budgetTaskQueue } from '../../src/contract/index.js';
import { shutdownForceMs } from '../../src/worker/options.js';
import { resolveKubernetesTools, type KubernetesTools } from '../support/kubernetes-tools.js';
import { describeWith, findMissing } from '../support/requirements.js';
import { tlsFile } from '../agent-jobs/support/peer.js';
import { knownSettings, type Manifest, parseManifests, repositoryPath, repositoryText } from './support.js';

/** The fields of the worker's Deployment that tests use. */
interface Deployment {
  replicas?: number;
  selector: { matchLabels: Record<string, string> };
  template: { metadata: { labels: Record<string, string> }; spec: Pod };
}
interface Pod {
  terminationGracePeriodSeconds: number;
  securityContext: unknown;
  volumes: { secret?: { defaultMode: number } }[];
  containers: [
    {
      image: string;
      ports: unknown;
      startupProbe: { httpGet: unknown };
      livenessProbe: { httpGet: unknown };
      readinessProbe: { httpGet: unknown };
      securityContext: unknown;
      volumeMounts: { mountPath: string; readOnly?: boolean }[];
    },
  ];
}

const overlays = ['base', 'overlays/production', 'overlays/keda'];

describeWith(await findMissing(['kubernetes-tools']))('the Kubernetes manifests', () => {
  let tools: KubernetesTools;
  const texts = new Map<string, string>();
  beforeAll(async () => {
    tools = await resolveKubernetesTools(process.env);
    const [command, ...args] = tools.kustomize;
    for (const overlay of overlays) {
      const path = repositoryPath(`deploy/kubernetes/${overlay}`);
      const { status, stdout, stderr } = spawnSync(command, [...args, path], { encoding: 'utf8' });
      expect(status, stderr).toBe(0);
      texts.set(overlay, stdout);
    }
  });

  const manifestsOf = (overlay: string) => parseManifests(texts.get(overlay) ?? '');
  const find = (overlay: string, kind: string): Manifest => {
    const found = manifestsOf(overlay).filter((manifest) => manifest.kind === kind);
    expect(found, `${kind} of ${overlay}`).toHaveLength(1);
    return found[0] as Manifest;
  };
  const podOf = (overlay: string) => (find(overlay, 'Deployment').spec as Deployment).template.spec;
  const settingsOf = (overlay: string) => find(overlay, 'ConfigMap').data ?? {};

  function conform(text: string) {
    const args = ['-strict', '-summary', '-schema-location', tools.schemaLocation, '-'];
    return spawnSync(tools.kubeconform, args, { input: text, encoding: 'utf8' });
  }

  test.each(overlays)('%s conforms to the schemas of Kubernetes, KEDA and the Prometheus Operator', (overlay) => {
    const { status, stdout, stderr } = conform(texts.get(overlay) ?? '');
    const count = manifestsOf(overlay).length;
    expect(`${stdout}${stderr}`).toContain(`${count} resources found`);
    expect({ status, stdout }).toMatchObject({ status: 0 });
    expect(stdout).toContain(`Valid: ${count}, Invalid: 0, Errors: 0, Skipped: 0`);
  });

  test('an unknown field or a wrong type is found', () => {
    const text = texts.get('overlays/keda') ?? '';
    for (const [good, bad] of [
      ['terminationGracePeriodSeconds: 90', 'terminationGracePeriod: 90'],
      ['containerPort: 9464', 'containerPort: status'],
      ['minReplicaCount: 2', 'minimumReplicaCount: 2'],
      ['scrapeTimeout: 10s', 'scrapeTimeOut: 10s'],
      ['secretTargetRef:', 'secretTarget:'],
    ] as const) {
      expect(text).toContain(good);
      expect(conform(text.replace(good, bad)).status, bad).not.toBe(0);
    }
  });

  test.each(overlays)('%s gives a worker settings that it knows, with valid values', async (overlay) => {
    const settings = settingsOf(overlay);
    expect(Object.keys(settings).filter((name) => !knownSettings.has(name))).toEqual([]);
    const directory = await mkdtemp(join(tmpdir(), 'mounted-'));
    onTestFinished(() => rm(directory, { recursive: true }));
    // The contents of the secrets, at their mount paths.
    const files: Record<string, string> = {
      'run/keys/api-keys.json': JSON.stringify({ demo: 'adm_a-key-for-tests' }),
      'run/temporal-tls/tls.crt': tlsFile('server.pem'),
      'run/temporal-tls/tls.key': tlsFile('server.key'),
      'run/temporal-tls/ca.crt': tlsFile('ca.pem'),
    };
    for (const [path, content] of Object.entries(files)) {
      await mkdir(join(directory, path, '..'), { recursive: true });
      await writeFile(join(directory, path), content, { mode: 0o440 });
    }
    const mounts = podOf(overlay).containers[0].volumeMounts.map(({ mountPath }) => `${mountPath}/`);
    const paths = Object.entries(settings).filter(([name]) => /_(FILE|PATH)$/.test(name));
    for (const [name, path] of paths)
      expect(
        mounts.some((mount) => path.startsWith(mount)),
        name,
      ).toBe(true);
    const config = loadConfig({
      ...settings,
      ...Object.fromEntries(paths.map(([name, path]) => [name, join(directory, path)])),
    });
    expect(config).toMatchObject({ status: { host: '0.0.0.0', port: 9464 }, warnings: [] });
    const hasTls = overlay !== 'base';
    expect(typeof config.temporal.connectionOptions().tls).toBe(hasTls ? 'object' : 'undefined');
    const { terminationGracePeriodSeconds } = podOf(overlay);
    expect(terminationGracePeriodSeconds * 1_000).toBeGreaterThan(shutdownForceMs(config));
  });

  test.each(overlays)('%s runs nothing as root, and lets the worker write only to /tmp', (overlay) => {
    const pod = podOf(overlay);
    const [worker] = pod.containers;
    expect(pod.securityContext).toMatchObject({
      runAsNonRoot: true,
      runAsUser: 1000,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    expect(worker.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    const writable = worker.volumeMounts.filter(({ readOnly }) => readOnly !== true);
    expect(writable.map(({ mountPath }) => mountPath)).toEqual(['/tmp']);
    // Only the owner and the group of the pod may read a file of keys.
    const modes = pod.volumes.flatMap(({ secret }) => (secret ? [secret.defaultMode] : []));
    expect(new Set(modes)).toEqual(new Set([0o440]));
  });

  test.each(overlays)('%s contains no secrets and reads them from mounted directories', (overlay) => {
    expect(manifestsOf(overlay).map(({ kind }) => kind)).not.toContain('Secret');
    expect(Object.keys(settingsOf(overlay))).not.toContain('AGENT_JOBS_API_KEY');
    expect(texts.get(overlay)).not.toContain('subPath');
  });

  test('the probes use the paths of the status server, and readiness alone depends on Temporal', () => {
    const [{ ports, startupProbe, livenessProbe, readinessProbe }] = podOf('base').containers;
    expect(ports).toEqual([{ name: 'status', containerPort: 9464 }]);
    expect(startupProbe.httpGet).toEqual({ path: '/healthz', port: 'status' });
    expect(livenessProbe.httpGet).toEqual({ path: '/healthz', port: 'status' });
    expect(readinessProbe.httpGet).toEqual({ path: '/readyz', port: 'status' });
  });

  test('every selector matches the pods', () => {
    const { selector, template } = find('overlays/keda', 'Deployment').spec as Deployment;
    expect(template.metadata.labels).toMatchObject(selector.matchLabels);
    const others = ['PodDisruptionBudget', 'PodMonitor'].map((kind) => find('overlays/keda', kind).spec);
    expect(others).toEqual(others.map(() => expect.objectContaining({ selector }) as unknown));
  });

  test('KEDA scales the workers by their task queues, and alone sets the number of replicas', () => {
    const settings = settingsOf('overlays/keda');
    const { taskQueue } = loadConfig({
      AGENT_JOBS_BASE_URL: 'https://api.example.com',
      AGENT_JOBS_API_KEY: 'adm_a-key-for-tests',
    });
    const { scaleTargetRef, triggers, minReplicaCount } = find('overlays/keda', 'ScaledObject').spec as {
      scaleTargetRef: { name: string };
      triggers: { type: string; metadata: Record<string, string>; authenticationRef: { name: string } }[];
      minReplicaCount: number;
    };
    const deployment = find('overlays/keda', 'Deployment');
    expect(scaleTargetRef.name).toBe(deployment.metadata.name);
    expect((deployment.spec as Deployment).replicas).toBeUndefined();
    expect(minReplicaCount).toBeGreaterThan(1);
    expect(triggers.map(({ metadata }) => metadata['taskQueue'])).toEqual([taskQueue, budgetTaskQueue(taskQueue)]);
    for (const { type, metadata, authenticationRef } of triggers) {
      expect(type).toBe('temporal');
      expect(metadata['endpoint']).toBe(settings['TEMPORAL_ADDRESS']);
      expect(metadata['namespace']).toBe(settings['TEMPORAL_NAMESPACE']);
      expect(authenticationRef.name).toBe(find('overlays/keda', 'TriggerAuthentication').metadata.name);
    }
  });

  test('the image is the one that docker-compose.yml builds', () => {
    const { name, version } = JSON.parse(repositoryText('package.json')) as { name: string; version: string };
    expect(podOf('base').containers[0].image).toBe(`${name}:${version}`);
    expect(podOf('overlays/production').containers[0].image).toMatch(new RegExp(`/${name}:${version}$`));
  });
});
