import { MODES } from './modes.ts';
import { describeConformance } from './suite.ts';

describeConformance(MODES['nixl-ranks']);
