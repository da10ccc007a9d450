import 'react';

declare module 'react' {
  interface CSSProperties {
    /** Colour of a hatched or plain swatch, read by the stylesheet. */
    '--hatch'?: string;
    '--swatch'?: string;
  }
}
