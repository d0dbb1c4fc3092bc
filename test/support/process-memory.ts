import { readFile } from 'node:fs/promises';

/** The resident memory of a process in bytes (`VmRSS` of Linux), or `undefined` if it is not known. */
export async function residentBytes(pid: number): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1];
  return kib === undefined ? undefined : Number(kib) * 1_024;
}
