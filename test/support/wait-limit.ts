/**
 * How long tests wait for a state, ms, before they say that it does not come. A limit for what never happens, not for what
 * is slow: it must hold on machines several times slower than a developer's, and below the deadline of a test.
 */
export const WAIT_LIMIT_MS = 60_000;
