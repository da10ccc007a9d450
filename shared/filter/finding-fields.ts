/** What a filter can ask about a finding. */
import { HOPS, SEVERITIES, type Finding } from '../findings.ts';
import { CONNECTORS } from '../vocabulary.ts';
import type { FilterField } from './field.ts';

function instanceWords(finding: Finding): readonly string[] | undefined {
  const words = [finding.instanceName, finding.instance].filter((word) => word !== undefined);
  return words.length === 0 ? undefined : words;
}

/** Keys of the Findings view, in the order in which they are suggested. */
export const FINDING_FILTER_FIELDS: readonly FilterField<Finding>[] = [
  { key: 'severity', type: 'enum', values: SEVERITIES, says: 'severity', summary: 'error, warning or info', get: (finding) => finding.severity },
  { key: 'instance', type: 'string', match: 'exact', says: 'instance', summary: 'The instance it is about: P0', isText: true, get: instanceWords },
  { key: 'connector', type: 'enum', values: CONNECTORS, says: 'connector', summary: 'P/D protocol in use when it was seen', isText: true, get: (finding) => finding.connector },
  { key: 'code', type: 'string', match: 'substring', says: 'code', summary: 'Part of its stable code', isText: true, get: (finding) => finding.code },
  { key: 'effect', type: 'enum', isNamed: true, values: ['kills', 'hangs'], says: 'effect', summary: 'What the engine would do: kills, hangs', get: (finding) => finding.effect },
  { key: 'count', type: 'number', unit: 'count', says: 'times seen', summary: 'How often it was seen: count>10', get: (finding) => finding.count },
  { key: 'blocked', type: 'number', unit: 'count', says: 'legs held back', summary: 'Legs held back because of it: blocked>0', get: (finding) => finding.blocked },
  { key: 'hop', type: 'enum', isNamed: true, values: HOPS, says: 'hop', summary: 'Where on its way a request was, in the kept cases', get: (finding) => finding.evidence.flatMap((one) => (one.hop === undefined ? [] : [one.hop])) },
  { key: 'dismissed', type: 'boolean', says: 'dismissed', summary: 'Whether a person dismissed it: yes, no', get: (finding) => finding.isDismissed },
  { key: 'title', type: 'string', match: 'substring', says: 'title', summary: 'Part of the diagnosis', isText: true, get: (finding) => finding.title },
  { key: 'message', type: 'string', match: 'substring', says: 'evidence', summary: 'Part of a kept case or of its request id', isText: true, get: (finding) => finding.evidence.flatMap((one) => [one.message, ...(one.request === undefined ? [] : [one.request.requestId])]) },
];
