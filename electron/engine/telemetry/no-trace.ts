/** Stands in for a record when there is no room for one: the request is served, not recorded, and counted as dropped. */
import type { LegTrace, RequestTrace } from './trace.ts';

const NO_LEG: LegTrace = { headers() {}, bytes() {}, facts() {}, end() {} };

export const NO_TRACE: RequestTrace = {
  wantsBodies: false,
  parsed() {},
  prompt() {},
  decided() {},
  retried() {},
  verdict() {},
  leg: () => NO_LEG,
  responded() {},
  chunk() {},
  end() {},
};
