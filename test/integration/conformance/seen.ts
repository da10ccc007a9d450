/** What the client saw of a case: status, bytes, and how they ended. */
import { expect } from 'vitest';
import type { Case, Expected } from './cases.ts';
import type { Answer } from './client.ts';
import { eventsOf, REQUEST_ID } from './requests.ts';

export function expectSeen(answer: Answer, expected: Expected, { each, isStream }: { readonly each: Case; readonly isStream: boolean }): void {
  switch (expected.kind) {
    case 'left':
      expect([answer.isCut, answer.status]).toEqual([true, each.leavesStreaming === true ? 200 : 0]);
      break;
    case 'refused':
      expectRefused(answer, expected);
      break;
    case 'broken':
      expect(answer.status).toBe(200);
      if (isStream) expectErrorEvent(answer, /decode leg/u);
      else expect(answer.isCut).toBe(true);
      break;
    case 'repeated':
    case 'right':
      expect([answer.status, answer.isCut]).toEqual([200, false]);
      break;
    case 'right-or-refused':
      if (isWhole(answer)) break;
      expectRefused(answer, {});
      break;
  }
}

export function isWhole({ status, text, isCut }: Answer): boolean {
  return status === 200 && !isCut && !text.includes('data: {"error"');
}

function expectRefused(answer: Answer, { status, code }: { readonly status?: number; readonly code?: string }): void {
  expect([answer.isCut, answer.contentType]).toEqual([false, 'application/json']);
  if (status === undefined) expect(answer.status).toBeGreaterThanOrEqual(500);
  else expect({ status: answer.status, text: answer.text }).toEqual({ status, text: answer.text });
  expect(JSON.parse(answer.text)).toMatchObject({ error: { message: expect.any(String) }, pdscope: { request_id: REQUEST_ID, ...(code !== undefined && { code }) } });
}

function expectErrorEvent(answer: Answer, message: RegExp): void {
  const { objects, isDone } = eventsOf(answer.text);
  const errors = objects.filter((object) => 'error' in object);
  expect(errors).toEqual([expect.objectContaining({ error: expect.objectContaining({ message: expect.stringMatching(message) }) })]);
  expect(objects.at(-1)).toBe(errors[0]);
  // [DONE] after an error is the engine's own; pdscope writes none.
  if ('pdscope' in (errors[0] ?? {})) expect(isDone).toBe(false);
}
