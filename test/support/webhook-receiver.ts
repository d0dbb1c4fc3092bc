import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Webhook } from '../../src/contract/index.js';

/** One attempt to deliver a webhook. */
export interface ReceivedWebhook {
  path: string;
  headers: Record<string, string>;
  /** The header `webhook-id`. */
  id: string;
  text: string;
  body: Webhook;
  response: WebhookResponse;
}

/** A status; or nothing, on a connection that is cut. */
type WebhookResponse = number | 'cut';

/** A system that receives webhooks, on loopback. */
export interface WebhookReceiver {
  /** Every attempt, in the order of arrival. */
  received: readonly ReceivedWebhook[];
  url(path: string): string;
  close(): void;
}

/** Starts a receiver. A redirect leads to `/elsewhere`. */
export async function startWebhookReceiver(
  respondTo: (webhook: Omit<ReceivedWebhook, 'response'>) => WebhookResponse | Promise<WebhookResponse> = () => 204,
): Promise<WebhookReceiver> {
  const received: ReceivedWebhook[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    const end = async () => {
      const headers = request.headers as Record<string, string>;
      const { url: path = '' } = request;
      const webhook = { path, headers, id: headers['webhook-id'] ?? '', text, body: JSON.parse(text) as Webhook };
      const answer = await respondTo(webhook);
      received.push({ ...webhook, response: answer });
      if (answer === 'cut') response.destroy();
      else response.writeHead(answer, { location: '/elsewhere' }).end('never read');
    };
    request.on('end', () => void end());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { received, url: (path) => `http://127.0.0.1:${port}${path}`, close: () => void server.close() };
}

export const newWebhookSecret = () => `whsec_${randomBytes(32).toString('base64')}`;
