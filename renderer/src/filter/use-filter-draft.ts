/**
 * What is being typed, apart from what is in force. Half-typed text is an error most of the time; the list keeps the
 * last filter that could be read, and changes a moment after the typing stops.
 */
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { compileFilter, type CompiledFilter } from '#shared/filter/compile.ts';
import type { FilterField } from '#shared/filter/field.ts';

/** Long enough that a word is typed in one go, short enough to feel immediate. */
const COMMIT_AFTER_MS = 250;

export interface FilterDraft<Row> {
  readonly text: string;
  readonly compiled: CompiledFilter<Row>;
  readonly setText: (text: string) => void;
  /** Puts the text into force now, if it can be read. */
  readonly commit: () => void;
}

/**
 * @param value The filter in force; a change from outside (a link, Back) replaces the draft.
 * @param onChange Keeps its identity between renders, else a list that streams in would put off committing for ever.
 */
export function useFilterDraft<Row>(value: string, fields: readonly FilterField<Row>[], onChange: (text: string) => void): FilterDraft<Row> {
  const [text, setText] = useState(value);
  const committed = useRef(value);
  useEffect(() => {
    // Our own commit comes back while the person already types on; only what somebody else decided replaces the text.
    if (value === committed.current) return;
    committed.current = value;
    setText(value);
  }, [value]);
  const compiled = useMemo(() => compileFilter(text, fields), [text, fields]);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);

  const commitText = useCallback(
    (next: string) => {
      clearTimeout(timer.current);
      const trimmed = next.trim();
      if (trimmed === committed.current || !compileFilter(trimmed, fields).ok) return;
      committed.current = trimmed;
      onChange(trimmed);
    },
    [fields, onChange],
  );
  useEffect(() => {
    timer.current = setTimeout(() => commitText(text), COMMIT_AFTER_MS);
    return () => clearTimeout(timer.current);
  }, [text, commitText]);

  const commit = useCallback(() => commitText(text), [commitText, text]);
  return useMemo(() => ({ text, compiled, setText, commit }), [text, compiled, commit]);
}
