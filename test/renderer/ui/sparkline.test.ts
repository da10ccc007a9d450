import { describe, expect, it } from 'vitest';
import { sparklinePath } from '../../../renderer/src/ui/sparkline.tsx';

describe('sparklinePath', () => {
  it('runs from the left to the right edge, highest value on top', () => {
    expect(sparklinePath([0, 10, 5], 20, 12)).toBe('M0.0 11.0L10.0 1.0L20.0 6.0');
  });

  it('breaks where nothing was observed and keeps a lone sample visible', () => {
    expect(sparklinePath([10, undefined, 10, 10, undefined, 5], 50, 12)).toBe('M0.0 1.0h1M20.0 1.0L30.0 1.0M50.0 6.0h1');
  });

  it('is empty without samples and flat at zero', () => {
    expect(sparklinePath([undefined, undefined], 20, 12)).toBe('');
    expect(sparklinePath([0, 0], 20, 12)).toBe('M0.0 11.0L20.0 11.0');
  });
});
