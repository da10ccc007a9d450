/** Role and phase colours as CSS values, for SVG, canvas and style props. The values live in tokens.css. */
import type { LegKind, Phase, Role } from '#shared/vocabulary.ts';

export const ROLE_COLOR: Readonly<Record<Role, string>> = {
  encode: 'var(--pd-role-encode)',
  prefill: 'var(--pd-role-prefill)',
  decode: 'var(--pd-role-decode)',
  both: 'var(--pd-role-both)',
};

/** Hue of a leg: that of the role which serves it; legs without a role of their own have their own. */
export const LEG_COLOR: Readonly<Record<LegKind | Role, string>> = {
  ...ROLE_COLOR,
  render: 'var(--pd-leg-render)',
  forward: 'var(--pd-leg-forward)',
};

export const PHASE_COLOR: Readonly<Record<Phase, string>> = {
  proxy: 'var(--pd-phase-proxy)',
  encode: 'var(--pd-phase-encode)',
  render: 'var(--pd-leg-render)',
  'prefill-queue': 'var(--pd-phase-queue)',
  'prefill-compute': 'var(--pd-phase-compute)',
  prefill: 'var(--pd-phase-compute)',
  handoff: 'var(--pd-phase-handoff)',
  'decode-queue': 'var(--pd-phase-queue)',
  'kv-wait': 'var(--pd-phase-kv-wait)',
  'first-step': 'var(--pd-phase-first-step)',
  unattributed: 'var(--pd-phase-unattributed)',
  decode: 'var(--pd-phase-decode)',
};

/** The phase as a person says it. */
export const PHASE_LABEL: Readonly<Record<Phase, string>> = {
  proxy: 'proxy',
  encode: 'encode',
  render: 'render',
  'prefill-queue': 'P queue',
  'prefill-compute': 'P compute',
  prefill: 'prefill',
  handoff: 'handoff',
  'decode-queue': 'D queue',
  'kv-wait': 'remote-KV wait',
  'first-step': 'first step',
  unattributed: 'unattributed',
  decode: 'decode',
};

/** Dash patterns that tell lines of one hue apart, in the order they are handed out. */
export const LINE_DASHES = ['', '6 3', '2 3', '8 3 2 3', '12 4', '4 2', '1 2', '10 2 2 2 2 2'] as const;
