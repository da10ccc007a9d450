import { useMemo } from 'react';
import { compileFilter } from '#shared/filter/compile.ts';
import type { FilterField } from '#shared/filter/field.ts';

/** The rows to colour; undefined when there is no highlight, or it is not in order. `fields` must keep its identity. */
export function useHighlight<Row>(highlight: string, fields: readonly FilterField<Row>[]): ((row: Row) => boolean) | undefined {
  return useMemo(() => {
    const compiled = compileFilter(highlight, fields);
    return compiled.ok && highlight !== '' ? compiled.matches : undefined;
  }, [highlight, fields]);
}
