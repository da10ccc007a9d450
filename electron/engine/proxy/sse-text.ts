/** Server-sent events that pdscope writes itself, in the form of the engines' own (vllm/entrypoints/openai). */
import type { RawHeaders } from './headers.ts';

export const EVENT_STREAM: RawHeaders = ['Content-Type', 'text/event-stream; charset=utf-8'];

/** Ends a stream that was complete. */
export const DONE_EVENT = 'data: [DONE]\n\n';

/** @param json on one line: a line break would end the event. */
export function dataEvent(json: string): string {
  return `data: ${json}\n\n`;
}
