/**
 * The filter of a view and its highlight: two drafts over the same grammar. The search filter goes to the engine, which
 * evaluates it over all it keeps; the highlight only colours what is on screen.
 */
import { useCallback, useId, useImperativeHandle, useRef, type ReactElement, type ReactNode, type Ref } from 'react';
import { compileFilter } from '#shared/filter/compile.ts';
import type { FilterField } from '#shared/filter/field.ts';
import { FilterInput, type FilterInputHandle } from './filter-input.tsx';
import { FilterReading } from './filter-reading.tsx';
import { SavedFilters } from './saved-filters.tsx';
import { useFilterDraft } from './use-filter-draft.ts';
import classes from './filter.module.css';

export interface FilterBarHandle {
  readonly focus: () => void;
}

export interface FilterBarProps<Row> {
  /** Names the saved filters, e.g. `requests`. */
  readonly id: string;
  readonly fields: readonly FilterField<Row>[];
  /** Rows whose values are suggested. */
  readonly getRows: () => readonly Row[];
  readonly filter: string;
  readonly onFilter: (text: string) => void;
  readonly highlight: string;
  readonly onHighlight: (text: string) => void;
  readonly builtIn: readonly string[];
  readonly placeholder: string;
  /** What is shown without a filter, e.g. `all requests`. */
  readonly everything: string;
  readonly onDone: () => void;
  /** At the end of the line with the reading: the counters, which belong to the same rows. */
  readonly aside?: ReactNode;
  readonly ref?: Ref<FilterBarHandle>;
}

/** `fields`, `getRows` and the callbacks keep their identity between renders. */
export function FilterBar<Row>(props: FilterBarProps<Row>): ReactElement {
  const { id, fields, getRows, filter, onFilter, highlight, onHighlight, builtIn, placeholder, everything, onDone, aside, ref } = props;
  const readingId = useId();
  const search = useFilterDraft(filter, fields, onFilter);
  const marker = useFilterDraft(highlight, fields, onHighlight);
  const searchInput = useRef<FilterInputHandle>(null);
  const markerInput = useRef<FilterInputHandle>(null);
  useImperativeHandle(ref, () => ({ focus: () => searchInput.current?.focus() }), []);
  const read = useCallback(
    (text: string) => {
      const compiled = compileFilter(text, fields);
      return compiled.ok ? compiled.reading : compiled.error;
    },
    [fields],
  );
  // While both are in order the search is read out: it decides what is on screen.
  const isMarkerShown = search.compiled.ok && !marker.compiled.ok;
  return (
    <div className={classes.bar}>
      <div className={classes.fields} role="search">
        <FilterInput
          ref={searchInput}
          draft={search}
          fields={fields}
          getRows={getRows}
          label="Filter"
          placeholder={placeholder}
          className={classes.search}
          describedBy={readingId}
          onDone={onDone}
        />
        <SavedFilters id={id} current={filter} builtIn={builtIn} read={read} onPick={onFilter} />
        <FilterInput
          ref={markerInput}
          draft={marker}
          fields={fields}
          getRows={getRows}
          label="Highlight"
          placeholder="highlight"
          className={classes.marker}
          onDone={onDone}
        />
      </div>
      <div className={classes.words}>
        {isMarkerShown ? (
          <FilterReading id={readingId} text={marker.text} compiled={marker.compiled} everything="" onGoTo={(at) => markerInput.current?.placeCaret(at)} />
        ) : (
          <FilterReading id={readingId} text={search.text} compiled={search.compiled} everything={everything} onGoTo={(at) => searchInput.current?.placeCaret(at)} />
        )}
        {aside}
      </div>
    </div>
  );
}
