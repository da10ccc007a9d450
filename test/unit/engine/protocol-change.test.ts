import { describe, expect, it } from 'vitest';
import { OPERATION_INPUTS } from '#shared/operations.ts';

describe('protocol.set', () => {
  it('names only what is to change: a default for the rest would undo it', () => {
    expect(OPERATION_INPUTS['protocol.set'].parse({ encodeStage: 'off' })).toEqual({ encodeStage: 'off' });
    expect(OPERATION_INPUTS['protocol.set'].parse({})).toEqual({});
  });
});
