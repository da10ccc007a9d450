import type { ReactElement } from 'react';
import type { MissRange } from '#shared/cache.ts';
import { formatInteger } from '../../../../ui/format.ts';
import { markDivergence, type MarkedSide } from './token-diff.ts';
import code from '../../../../ui/code-text.module.css';
import classes from './why.module.css';

/** What was asked beside what is held, with the token that differs marked by colour, line and brackets. */
export function Divergence({ at }: { readonly at: NonNullable<MissRange['diverges']> }): ReactElement {
  const [asked, held] = markDivergence(at.asked, at.held);
  return (
    <div className={classes.sides} role="group" aria-label={`Differs at token ${at.token}, in block ${at.block}`}>
      <Side title={`asked, around token ${formatInteger(at.token)}`} side={asked} />
      <Side title="held in the cache" side={held} />
      {!asked.isText && <p className={classes.dim}>Token ids: no instance decoded these.</p>}
    </div>
  );
}

function Side({ title, side }: { readonly title: string; readonly side: MarkedSide }): ReactElement {
  const gap = side.isText ? '' : ', ';
  return (
    <figure className={classes.side}>
      <figcaption>{title}</figcaption>
      <pre className={`${code.code} ${classes.sideText ?? ''}`} tabIndex={0} aria-label={title}>
        {side.alike}
        {side.alike !== '' && gap}
        {side.differs === '' ? <mark className={classes.differs}>(ends here)</mark> : <mark className={classes.differs}>{side.differs}</mark>}
        {side.rest !== '' && gap}
        {side.rest}
      </pre>
    </figure>
  );
}
