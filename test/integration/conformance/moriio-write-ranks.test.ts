import { MODES } from './modes.ts';
import { describeConformance } from './suite.ts';

describeConformance(MODES['moriio-write-ranks']);
