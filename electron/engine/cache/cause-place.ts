/** In which part of a chat request a divergence stands, found by its decoded text. Pure; undefined when that is not plain. */
import { asJsonObject } from '../proxy/client-request.ts';
import type { Json } from './prompt-source.ts';

/** Characters of the text before the difference that are tried, longest first: templates put marks of their own in between. */
const LEADS = [48, 24, 12, 6, 0] as const;
/** And of the text from the difference on, for the same reason. */
const ASKED = [16, 6, 3] as const;
/** Shorter texts are found anywhere. */
const MIN_CHARS = 8;

const PLACES: Readonly<Record<string, string>> = {
  system: 'the system prompt', developer: 'the system prompt', user: 'a user message', assistant: 'an earlier answer', tool: 'a tool result',
};

/** `lead`, `asked`: decoded text before the first token that differs, and from it on. */
export function placeOf(json: Json, { lead, asked }: { readonly lead: string; readonly asked: string }): string | undefined {
  const parts = partsOf(json);
  for (const chars of LEADS) {
    for (const askedChars of ASKED) {
      const text = (chars === 0 ? '' : lead.slice(-chars)) + asked.slice(0, askedChars);
      if (text.trim().length < MIN_CHARS) continue;
      const places = new Set(parts.filter((part) => part.text.includes(text)).map(({ place }) => place));
      const [place] = places;
      if (places.size > 0) return places.size === 1 ? place : undefined;
    }
  }
  return undefined;
}

function partsOf({ messages, tools }: Json): { readonly place: string; readonly text: string }[] {
  const parts: { readonly place: string; readonly text: string }[] = [];
  if (tools !== undefined && tools !== null) parts.push({ place: 'the tool definitions', text: JSON.stringify(tools) });
  if (!Array.isArray(messages)) return parts;
  for (const message of messages as readonly unknown[]) {
    const { role, content } = asJsonObject(message) ?? {};
    const place = typeof role === 'string' ? (PLACES[role] ?? `a ${role.slice(0, 32)} message`) : undefined;
    if (place === undefined) continue;
    const texts: readonly unknown[] = Array.isArray(content) ? (content as readonly unknown[]).map((part) => asJsonObject(part)?.['text']) : [content];
    for (const text of texts) if (typeof text === 'string') parts.push({ place, text });
  }
  return parts;
}
