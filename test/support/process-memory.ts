import { readFile } from 'node:fs/promises';

/** Memory that a process holds now, in bytes (`VmRSS` of Linux); `undefined` where that cannot be told. */
export async function residentBytes(pid: number): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1];
  return kib === undefined ? undefined : Number(kib) * 1_024;
}
