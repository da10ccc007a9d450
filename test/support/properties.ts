/**
 * fast-check for property tests, with the same examples in every run: whether a change lands must not hang on which ones were
 * drawn. PDSCOPE_TEST_SEED=<number> draws others, PDSCOPE_TEST_SEED=random others each time; a failure says its seed.
 */
import * as fc from 'fast-check';

const { PDSCOPE_TEST_SEED: seed = '1' } = process.env;
if (seed !== 'random') fc.configureGlobal({ seed: Number(seed) });

export * from 'fast-check';
export * as fc from 'fast-check';
