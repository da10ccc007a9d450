/**
 * One block by its content: where it is in its prompt, what it says, who holds it and who held it. It can be opened from
 * a KV event, from the residency map and from the prefix tree; whoever opens it decides where a neighbour opens.
 */
import type { ReactElement } from 'react';
import type { BlockDetail } from '#shared/cache.ts';
import type { OperationInput } from '#shared/operations.ts';
import { usePolledQuery } from '../transport/use-polled-query.ts';
import { CopyText } from '../ui/copy-text.tsx';
import { Facts } from '../ui/facts.tsx';
import { formatInteger } from '../ui/format.ts';
import { Message } from '../ui/message.tsx';
import { BlockHistory } from './block-history.tsx';
import { RunList } from './run-list.tsx';
import type { BlockRef } from './block-ref.ts';
import { HolderList } from './holder-list.tsx';
import { TrustMark } from './trust-mark.tsx';
import { useStreamTrust } from './use-trust.ts';
import code from '../ui/code-text.module.css';
import classes from './blocks.module.css';

const REFRESH_MS = 2000;

/** Runs before and after a block that are listed; the rest is counted. */
const MOST_RUNS = 12;

export interface BlockPanelProps {
  readonly block: BlockRef;
  readonly onOpen: (block: BlockRef) => void;
}

/** Asks for the block, again and again while it is on screen: holders and history change. Mount it anew for another block. */
export function BlockPanel({ block, onOpen }: BlockPanelProps): ReactElement {
  const input: OperationInput<'cache.block'> = block;
  const { value, error } = usePolledQuery('cache.block', input, REFRESH_MS);
  if (value === undefined) {
    return (
      <div className={classes.body}>
        {error === undefined ? <p className={classes.dim}>Asking the engine for this block …</p> : <Message tone="error">{error.message}</Message>}
      </div>
    );
  }
  return (
    <div className={classes.body}>
      {error !== undefined && <Message tone="warning">Shown as last seen: {error.message}</Message>}
      <BlockFacts detail={value} onOpen={onOpen} />
    </div>
  );
}

function BlockFacts({ detail, onOpen }: { readonly detail: BlockDetail; readonly onOpen: (block: BlockRef) => void }): ReactElement {
  const { tokens, text, blockSize, index, hashes, extraKeys, holders } = detail;
  const from = index * blockSize;
  const trust = useStreamTrust(detail.history.map(({ stream }) => stream));
  return (
    <>
      <div className={classes.head}>
        <h2 className={classes.title}>
          Block {formatInteger(index)} of its prompt <span className={classes.dim}>· tokens {formatInteger(from)} to {formatInteger(from + Math.max(tokens.length, 1) - 1)}</span>
        </h2>
        <HolderList holders={holders} most={10} />
        <TrustMark trust={trust} isLong />
      </div>
      <div className={classes.columns}>
        <section className={classes.content} aria-label="Content of the block">
          {text === undefined ? (
            <p className={classes.dim}>No decoded text: no instance with this model answered /detokenize. The token ids say the same.</p>
          ) : (
            <pre className={`${code.code} ${classes.decoded ?? ''}`} tabIndex={0} aria-label="Decoded text">{text}</pre>
          )}
          <Facts
            facts={[
              ['block size', `${formatInteger(blockSize)} tokens`],
              ['extra keys', extraKeys === undefined ? undefined : <code key="extra">{extraKeys}</code>],
              [`token ids (${formatInteger(tokens.length)})`, tokens.length === 0 ? 'not known' : <code key="ids">{tokens.join(', ')}</code>],
              ['hashes', hashes.length === 0 ? 'none known' : <HashList key="hashes" detail={detail} />],
            ]}
          />
        </section>
        <RunList most={MOST_RUNS} title="Before it in the prompt" nodes={detail.parents} empty="Nothing: the prompt starts here." onOpen={onOpen} />
        <RunList most={MOST_RUNS} title="After it" nodes={detail.children} empty="Nothing stored after it." onOpen={onOpen} />
        <BlockHistory detail={detail} onOpen={onOpen} />
      </div>
    </>
  );
}

function HashList({ detail }: { readonly detail: BlockDetail }): ReactElement {
  return (
    <ul className={classes.hashes}>
      {detail.hashes.map(({ stream, instanceName, hash }) => (
        <li key={`${stream}${hash}`}>
          <span className={classes.dim}>{instanceName}/{stream.slice(stream.lastIndexOf('/') + 1)}</span> <CopyText text={hash} label="block hash" />
        </li>
      ))}
    </ul>
  );
}
