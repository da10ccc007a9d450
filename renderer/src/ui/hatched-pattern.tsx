import type { ReactElement } from 'react';

/**
 * The hatch of bounded or unobserved intervals, for SVG: put it in `<defs>` and fill with `url(#id)`. For HTML use the
 * class `hatch` of ui.module.css with `--pd-hatch-color`.
 */
export function HatchedPattern({ id, color }: { readonly id: string; readonly color: string }): ReactElement {
  return (
    <pattern id={id} width={5} height={5} patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">
      <rect width={5} height={5} fill="transparent" />
      <line x1={0} y1={0} x2={5} y2={0} stroke={color} strokeWidth={2} />
    </pattern>
  );
}
