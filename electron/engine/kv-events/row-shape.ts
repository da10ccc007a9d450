/**
 * What rows of one stream have in common: who sent them, and the fields that repeat from event to event (medium, group,
 * block size, adapter ...). One object stands for all rows that agree in every field, so a row costs a pointer,
 * and the garbage collector frees a shape with its last row. Sharing is an economy only: a row that finds no equal
 * shape among the recent ones of its stream gets its own, and reads the same.
 */
import type { KvRowKind } from '#shared/vocabulary.ts';
import type { RowEvent, RowSource, StreamIdentity } from './kv-row.ts';

export interface RowShape {
  readonly stream: StreamIdentity;
  readonly epoch: number;
  readonly kind: KvRowKind;
  /** Made by pdscope: has no time of the engine. */
  readonly isNotice: boolean;
  readonly blockSize: number | undefined;
  readonly medium: string | undefined;
  readonly groupIdx: number | undefined;
  readonly loraName: string | undefined;
  readonly loraId: number | undefined;
  readonly specKind: string | undefined;
  readonly slidingWindow: number | undefined;
  readonly locality: string | undefined;
  readonly ownership: string | undefined;
}

/** Shapes remembered per stream: groups times media times kinds, and some adapters. The oldest goes. */
const MAX_SHAPES = 32;
/** A shape with more text is not remembered: it must go with its row, whose bytes it counts among. */
const MAX_SHARED_CHARS = 512;
/** An object of 13 fields, about. */
const SHAPE_BYTES = 128;

interface Recent {
  readonly shapes: RowShape[];
  /** The place of the oldest once the list is full. */
  oldest: number;
}

export class RowShapes {
  /** By stream; weak, so that streams that are gone need no telling. */
  readonly #recent = new WeakMap<StreamIdentity, Recent>();
  #lastStream: StreamIdentity | undefined;
  #lastRecent: Recent | undefined;

  /** A remembered shape that equals the row's in every field. */
  find(source: RowSource, event: RowEvent): RowShape | undefined {
    const shapes = this.#of(source.stream)?.shapes;
    if (shapes === undefined) return undefined;
    const kind = rowKind(event);
    for (const shape of shapes) if (shape.kind === kind && isShapeOf(shape, source, event)) return shape;
    return undefined;
  }

  /** Makes the row's shape, and remembers it. */
  create(source: RowSource, event: RowEvent): RowShape {
    const shape = shapeOf(source, event);
    if (textChars(shape) > MAX_SHARED_CHARS) return shape;
    let recent = this.#of(source.stream);
    if (recent === undefined) {
      recent = { shapes: [], oldest: 0 };
      this.#recent.set(source.stream, recent);
      this.#lastRecent = recent;
    }
    if (recent.shapes.length < MAX_SHAPES) {
      recent.shapes.push(shape);
    } else {
      recent.shapes[recent.oldest] = shape;
      recent.oldest = (recent.oldest + 1) % MAX_SHAPES;
    }
    return shape;
  }

  #of(stream: StreamIdentity): Recent | undefined {
    if (stream !== this.#lastStream) {
      this.#lastStream = stream;
      this.#lastRecent = this.#recent.get(stream);
    }
    return this.#lastRecent;
  }
}

/** Memory of a shape and its texts, at most, bytes. */
export function shapeBytes(shape: RowShape): number {
  return SHAPE_BYTES + 2 * textChars(shape);
}

/** Whether a shape of the row's stream and kind agrees with it in all the rest. */
function isShapeOf(shape: RowShape, source: RowSource, event: RowEvent): boolean {
  if (shape.epoch !== source.epoch) return false;
  switch (event.kind) {
    case 'stored':
      return shape.groupIdx === event.groupIdx
        && shape.medium === event.medium
        && shape.blockSize === event.blockSize
        && shape.loraName === event.loraName
        && shape.loraId === event.loraId
        && shape.specKind === event.specKind
        && shape.slidingWindow === event.slidingWindow
        && shape.locality === event.locality
        && shape.ownership === event.ownership;
    case 'removed':
      return shape.groupIdx === event.groupIdx
        && shape.medium === event.medium
        && shape.locality === event.locality
        && shape.ownership === event.ownership;
    case 'unknown': return shape.groupIdx === event.groupIdx && shape.medium === event.medium;
    case 'bad': return !shape.isNotice;
    case 'error': return shape.isNotice;
    case 'cleared': case 'gap': case 'filled': case 'lost': case 'restart': break;
  }
  return true;
}

function shapeOf(source: RowSource, event: RowEvent): RowShape {
  const stored = event.kind === 'stored' ? event : undefined;
  const held = stored ?? (event.kind === 'removed' ? event : undefined);
  const placed = held ?? (event.kind === 'unknown' ? event : undefined);
  return {
    stream: source.stream,
    epoch: source.epoch,
    kind: rowKind(event),
    isNotice: isNotice(event),
    blockSize: stored?.blockSize,
    medium: placed?.medium,
    groupIdx: placed?.groupIdx,
    loraName: stored?.loraName,
    loraId: stored?.loraId,
    specKind: stored?.specKind,
    slidingWindow: stored?.slidingWindow,
    locality: held?.locality,
    ownership: held?.ownership,
  };
}

function rowKind(event: RowEvent): KvRowKind {
  return event.kind === 'bad' ? 'error' : event.kind;
}

function isNotice(event: RowEvent): boolean {
  switch (event.kind) {
    case 'gap': case 'filled': case 'lost': case 'restart': case 'error': return true;
    case 'stored': case 'removed': case 'cleared': case 'unknown': case 'bad': break;
  }
  return false;
}

function textChars(shape: RowShape): number {
  const { medium = '', loraName = '', specKind = '', locality = '', ownership = '' } = shape;
  return medium.length + loraName.length + specKind.length + locality.length + ownership.length;
}
