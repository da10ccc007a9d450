/** One filter text field with suggestions. The reading and the error are shown by `FilterReading`, which it names. */
import { Combobox, InputBase, useCombobox } from '@mantine/core';
import { memo, useImperativeHandle, useRef, useState, type KeyboardEvent, type ReactElement, type Ref } from 'react';
import type { FilterField } from '#shared/filter/field.ts';
import { collectSeenValues } from './seen-values.ts';
import { applySuggestion, suggest, type Suggestions } from './suggest.ts';
import type { FilterDraft } from './use-filter-draft.ts';
import classes from './filter.module.css';

export interface FilterInputHandle {
  readonly focus: () => void;
  readonly placeCaret: (at: number) => void;
}

export interface FilterInputProps<Row> {
  readonly draft: FilterDraft<Row>;
  readonly fields: readonly FilterField<Row>[];
  /** Rows whose values are suggested; asked for while somebody types, so that rows streaming in render nothing here. */
  readonly getRows: () => readonly Row[];
  readonly label: string;
  readonly placeholder: string;
  readonly className?: string | undefined;
  /** Id of the element with the reading or the error. */
  readonly describedBy?: string;
  /** Enter or Esc: the person is done here. */
  readonly onDone: () => void;
  readonly ref?: Ref<FilterInputHandle>;
}

const NOTHING: Suggestions = { from: 0, to: 0, items: [] };

function FilterInputInner<Row>(props: FilterInputProps<Row>): ReactElement {
  const { draft, fields, getRows, label, placeholder, className, describedBy, onDone, ref } = props;
  const input = useRef<HTMLInputElement>(null);
  const [suggestions, setSuggestions] = useState(NOTHING);
  const combobox = useCombobox({ onDropdownClose: () => combobox.resetSelectedOption() });

  useImperativeHandle(ref, () => ({
    focus: () => {
      input.current?.focus();
      input.current?.select();
    },
    placeCaret: (at) => {
      input.current?.focus();
      input.current?.setSelectionRange(at, at);
    },
  }), []);

  const refresh = (text: string, caret: number): void => {
    const next = suggest(text, caret, fields, (key) => collectSeenValues(getRows(), fields, key));
    setSuggestions(next);
    combobox.resetSelectedOption();
    if (next.items.length > 0) combobox.openDropdown();
    else combobox.closeDropdown();
  };

  const accept = (index: number): void => {
    const item = suggestions.items[index];
    if (item === undefined) return;
    const { text, caret } = applySuggestion(draft.text, suggestions, item);
    draft.setText(text);
    refresh(text, caret);
    requestAnimationFrame(() => input.current?.setSelectionRange(caret, caret));
  };

  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>): void => {
    if (event.key === 'Escape') {
      event.stopPropagation();
      if (combobox.dropdownOpened) combobox.closeDropdown();
      else onDone();
    } else if (event.key === 'Enter' && combobox.getSelectedOptionIndex() < 0) {
      combobox.closeDropdown();
      draft.commit();
      onDone();
    }
  };

  return (
    <Combobox store={combobox} onOptionSubmit={(value) => accept(Number(value))} position="bottom-start" width="max-content" offset={2} withinPortal={false}>
      <Combobox.Target>
        <InputBase
          ref={input}
          className={className ?? ''}
          classNames={{ input: classes.input ?? '' }}
          size="xs"
          value={draft.text}
          placeholder={placeholder}
          aria-label={label}
          error={!draft.compiled.ok}
          withAria={false}
          aria-invalid={!draft.compiled.ok}
          {...(describedBy !== undefined && { 'aria-describedby': describedBy })}
          spellCheck={false}
          autoComplete="off"
          autoCapitalize="off"
          onChange={(event) => {
            draft.setText(event.currentTarget.value);
            refresh(event.currentTarget.value, event.currentTarget.selectionStart ?? event.currentTarget.value.length);
          }}
          onClick={(event) => refresh(draft.text, event.currentTarget.selectionStart ?? draft.text.length)}
          onBlur={() => {
            combobox.closeDropdown();
            draft.commit();
          }}
          onKeyDown={onKeyDown}
        />
      </Combobox.Target>
      <Combobox.Dropdown className={classes.dropdown ?? ''} hidden={suggestions.items.length === 0}>
        <Combobox.Options className={classes.options ?? ''} aria-label={`Suggestions for ${label}`}>
          {suggestions.items.map((item, index) => (
            <Combobox.Option key={item.insert} value={String(index)} className={classes.option ?? ''}>
              <span className={classes.optionLabel}>{item.label}</span>
              <span className={classes.optionHint}>{item.hint}</span>
            </Combobox.Option>
          ))}
        </Combobox.Options>
      </Combobox.Dropdown>
    </Combobox>
  );
}

/** Renders only when its own props change: beside a list that streams in, that is hardly ever. */
export const FilterInput = memo(FilterInputInner) as typeof FilterInputInner;
