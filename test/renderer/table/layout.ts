/** happy-dom lays nothing out; a table needs a size to know which rows are on screen. */
import { afterEach, beforeEach, vi } from 'vitest';

/** Gives every element this size for the length of each test. */
export function withLayout(width: number, height: number): void {
  beforeEach(() => {
    for (const [name, value] of [['offsetWidth', width], ['offsetHeight', height], ['clientWidth', width], ['clientHeight', height]] as const) {
      vi.spyOn(HTMLElement.prototype, name, 'get').mockReturnValue(value);
    }
  });
  afterEach(() => {
    vi.restoreAllMocks();
  });
}
