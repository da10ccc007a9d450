/** A client that sees what a client can see: status, bytes, and whether the connection broke. */
import http from 'node:http';
import type { Json } from './modes.ts';

export interface PostOptions {
  readonly requestId?: string;
  readonly signal?: AbortSignal;
  readonly onChunk?: () => void;
}

export interface Answer {
  /** 0: the connection ended before there was one. */
  readonly status: number;
  readonly text: string;
  readonly contentType: string;
  /** The connection broke before the end. */
  readonly isCut: boolean;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

export function post({ host, port }: Address, path: string, body: Json, { requestId, signal, onChunk }: PostOptions = {}): Promise<Answer> {
  const payload = JSON.stringify(body);
  return new Promise((resolve) => {
    let text = '';
    let status = 0;
    let contentType = '';
    const done = (isCut: boolean): void => resolve({ status, text, contentType, isCut });
    const request = http.request({
      host, port, path, method: 'POST', agent: false,
      headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload), ...(requestId !== undefined && { 'x-request-id': requestId }) },
      ...(signal !== undefined && { signal }),
    });
    request.on('error', () => done(true));
    request.on('response', (response) => {
      status = response.statusCode ?? 0;
      contentType = response.headers['content-type'] ?? '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
        onChunk?.();
      });
      response.on('end', () => done(!response.complete));
      response.on('error', () => done(true));
    });
    request.end(payload);
  });
}
