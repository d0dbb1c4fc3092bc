import { statSync } from 'node:fs';
import { z } from 'zod';
import { type ApiKeySource, isUsableApiKey, MIN_API_KEY_LENGTH, parseKeysFile } from '../agent-jobs/api-keys.js';
import { baseUrlIssue, isLoopbackHost } from '../agent-jobs/base-url.js';
import { defined } from '../contract/defined.js';
import { keepKey } from './environment-secrets.js';
import type { Setting, SettingsReader } from './settings-reader.js';

/**
 * Where API keys come from; at least one of the three is given. A project uses the first of `keysFile`, `keyFile` and
 * `key` that has a key for it. Files are read again when they change, so that a key can be replaced without a restart.
 */
export interface ApiKeySettings extends Pick<ApiKeySource, 'keyFile' | 'keysFile'> {
  /** One key for all projects. A function, so that logging or inspecting a configuration does not show it. */
  key?: () => string;
}

export const KEY_RULE = `at least ${MIN_API_KEY_LENGTH} visible ASCII characters without spaces`;

const allowHttpSetting: Setting<boolean> = {
  name: 'AGENT_JOBS_ALLOW_HTTP',
  fallback: false,
  schema: z.enum(['true', 'false'], 'must be true or false').transform((text) => text === 'true'),
};

/** `AGENT_JOBS_BASE_URL` without a trailing slash; `''` if it is missing or invalid. */
export function readBaseUrl(settings: SettingsReader): string {
  const name = 'AGENT_JOBS_BASE_URL';
  const text = settings.text(name);
  const allowHttp = settings.read(allowHttpSetting);
  if (text === undefined) {
    settings.refuse(name, 'is required: address of the agent job service, such as https://api.example.com');
    return '';
  }
  const issue = baseUrlIssue(text);
  if (issue !== undefined) {
    // Not shown: it may hold a password.
    settings.refuse(name, issue);
    return '';
  }
  const url = new URL(text);
  if (url.protocol === 'http:' && !isLoopbackHost(url.hostname) && !allowHttp) {
    settings.refuse(
      name,
      'must start with https://: over http, anybody on the network can read the API key; AGENT_JOBS_ALLOW_HTTP=true allows it',
      text,
    );
  }
  return url.href.replace(/\/+$/, '');
}

/** The three key settings. At least one is required. */
export function readApiKeySettings(settings: SettingsReader): ApiKeySettings {
  const key = settings.text('AGENT_JOBS_API_KEY');
  const keyFile = settings.text('AGENT_JOBS_API_KEY_FILE');
  const keysFile = settings.text('AGENT_JOBS_API_KEYS_FILE');
  if (key === undefined && keyFile === undefined && keysFile === undefined) {
    const others = 'AGENT_JOBS_API_KEY_FILE, or AGENT_JOBS_API_KEYS_FILE instead';
    settings.refuse('AGENT_JOBS_API_KEY', `is required, or ${others}`);
  }
  if (key !== undefined && !isUsableApiKey(key)) settings.refuse('AGENT_JOBS_API_KEY', `must be ${KEY_RULE}`);
  readKeyFile(settings, 'AGENT_JOBS_API_KEY_FILE');
  const tableRule = `must hold JSON, { "projectId": "key" }, each key of ${KEY_RULE}`;
  settings.file('AGENT_JOBS_API_KEYS_FILE', parseKeysFile, tableRule);
  return defined({ key: key === undefined ? undefined : () => key, keyFile, keysFile });
}

/** The one key in the file that a setting names; `undefined` if it is not set, or refused. */
export function readKeyFile(settings: SettingsReader, name: string): string | undefined {
  const parse = (text: string): string => {
    keepKey(text);
    if (!isUsableApiKey(text.trim())) throw new Error('no key');
    return text.trim();
  };
  return settings.file(name, parse, `must hold one key, of ${KEY_RULE}`);
}

/** Names of the settings whose files hold a secret. */
const secretFiles = [
  'AGENT_JOBS_API_KEY_FILE',
  'AGENT_JOBS_API_KEYS_FILE',
  'TEMPORAL_API_KEY_FILE',
  'TEMPORAL_TLS_CLIENT_KEY_PATH',
];

/** Warns of what makes a key or a connection easy to steal. A file that cannot be read is refused elsewhere. */
export function readSecurityWarnings(settings: SettingsReader): string[] {
  const warnings = [];
  for (const name of secretFiles) {
    const path = settings.text(name);
    if (path === undefined || !isForEverybody(path)) continue;
    warnings.push(`${name}: every user of this machine can read ${path}; run chmod o= ${path}`);
  }
  if (settings.text('NODE_TLS_REJECT_UNAUTHORIZED') === '0') {
    warnings.push(
      'NODE_TLS_REJECT_UNAUTHORIZED=0: certificates are not checked, so anybody on the network can read the API key; unset it, and add your own authority with NODE_EXTRA_CA_CERTS',
    );
  }
  return warnings;
}

function isForEverybody(path: string): boolean {
  // Windows has no such bits and reports the same mode for every file.
  if (process.platform === 'win32') return false;
  return ((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o007) !== 0;
}
