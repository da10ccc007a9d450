import { useElementSize } from '@mantine/hooks';
import { useMemo, type ReactElement } from 'react';
import type { InstanceView } from '#shared/instance.ts';
import type { EngineState } from '#shared/state.ts';
import type { Role } from '#shared/vocabulary.ts';
import { describeInstance } from '../../fleet/instance-state.ts';
import { ROLE_COLOR } from '../../theme/palette.ts';
import { formatCompact, formatCount, formatInteger, formatMs, formatRate } from '../../ui/format.ts';
import { TONE_SHAPE } from '../../ui/state-mark.tsx';
import { useUrlState } from '../../url/use-url-state.ts';
import classes from './topology.module.css';
import { edgePath, edgeWidth, layoutTopology, NODE_HEIGHT, NODE_WIDTH, routeEdges, type TopologyEdge, type TopologyNode } from './topology-layout.ts';

/** Clients to decode as boxes and lines; a line's width is its requests per second over the last 10 s. */
export function Topology({ engine }: { readonly engine: EngineState }): ReactElement {
  const { ref, width } = useElementSize<HTMLDivElement>();
  const layout = useMemo(
    () => layoutTopology(engine.instances, engine.edges, Math.max(620, width)),
    [engine.instances, engine.edges, width],
  );
  const max = Math.max(engine.totals.requestsPerSecond, ...layout.edges.map((edge) => edge.requestsPerSecond));
  const clients = layout.nodes.find((node) => node.kind === 'clients');
  const proxy = layout.nodes.find((node) => node.kind === 'proxy');

  return (
    <section className={classes.frame} aria-label="Topology">
      <div ref={ref} className={classes.canvas}>
        {width > 0 && (
          <svg width={Math.max(620, width)} height={layout.height} className={classes.svg} role="group" aria-label="Requests per second between clients, proxy and instances">
            {clients !== undefined && proxy !== undefined && (
              <path d={edgePath(clients, proxy)} className={classes.edge} stroke="var(--pd-line-strong)" strokeWidth={edgeWidth(engine.totals.requestsPerSecond, max)} />
            )}
            {routeEdges(layout.edges).map((edge) => (
              <Edge key={`${edge.from.id} ${edge.to.id}`} edge={edge} max={max} />
            ))}
            <HandoffCaption engine={engine} nodes={layout.nodes} />
            {layout.nodes.map((node) => (
              <Node key={node.id} node={node} engine={engine} />
            ))}
          </svg>
        )}
      </div>
    </section>
  );
}

function Edge({ edge, max }: { readonly edge: TopologyEdge & { readonly path: string }; readonly max: number }): ReactElement {
  const isHandoff = edge.from.kind !== 'proxy' && edge.to.role === 'decode';
  const color = isHandoff || edge.to.role === undefined ? 'var(--pd-phase-handoff)' : ROLE_COLOR[edge.to.role];
  return (
    <path d={edge.path} className={classes.edge} stroke={color} strokeWidth={edgeWidth(edge.requestsPerSecond, max)}>
      <title>{`${labelOf(edge.from)} → ${labelOf(edge.to)}: ${formatRate(edge.requestsPerSecond)} requests/s, last 10 s`}</title>
    </path>
  );
}

function HandoffCaption({ engine, nodes }: { readonly engine: EngineState; readonly nodes: readonly TopologyNode[] }): ReactElement | undefined {
  const { handoffMs } = engine.latency;
  const prefill = nodes.find((node) => node.role === 'prefill');
  const decode = nodes.find((node) => node.role === 'decode');
  if (handoffMs === undefined || handoffMs.n === 0 || prefill === undefined || decode === undefined) return undefined;
  return (
    <text x={(prefill.x + NODE_WIDTH + decode.x) / 2} y={13} className={classes.caption} textAnchor="middle">
      handoff {formatMs(handoffMs.p50)} ms p50 · {formatMs(handoffMs.p95)} p95
    </text>
  );
}

/** The outline is the role's, always; a state shows as ground, shape and words, because its amber would pass for prefill. */
function Node({ node, engine }: { readonly node: TopologyNode; readonly engine: EngineState }): ReactElement {
  const [, setUrl] = useUrlState();
  const only = node.kind === 'instance' ? node.instances[0] : undefined;
  const state = only === undefined ? undefined : describeInstance(only, engine.nowUnixMs);
  const isQuiet = only !== undefined && (only.state === 'draining' || only.state === 'disabled');
  const tone = state?.tone ?? (node.instances.some((one) => !isServing(one)) ? 'warning' : 'ok');
  const second = secondLine(node, engine);
  const box = (
    <>
      <rect width={NODE_WIDTH} height={NODE_HEIGHT} className={classes.box} data-tone={tone} stroke={nodeColor(node)} strokeDasharray={isQuiet ? '4 3' : undefined}>
        <title>{`${labelOf(node)}: ${state?.words ?? second}${state?.explanation === undefined ? '' : ` (${state.explanation})`}`}</title>
      </rect>
      <text x={9} y={16} className={classes.name}>
        {labelOf(node)}
      </text>
      <text x={9} y={30} className={classes.line} data-tone={tone}>
        {second}
      </text>
    </>
  );
  const transform = `translate(${node.x} ${node.y})`;
  if (node.kind === 'clients' || node.kind === 'proxy') return <g transform={transform}>{box}</g>;
  const open = (): void => setUrl({ view: 'instances', selection: only?.id ?? '' });
  return (
    <g
      transform={transform}
      className={classes.link}
      role="link"
      tabIndex={0}
      onClick={open}
      onKeyDown={(event) => {
        if (event.key === 'Enter') open();
      }}
    >
      {box}
    </g>
  );
}

function nodeColor(node: TopologyNode): string {
  if (node.role !== undefined) return ROLE_COLOR[node.role];
  return node.kind === 'proxy' ? 'var(--pd-accent)' : 'var(--pd-line-strong)';
}

function labelOf(node: TopologyNode): string {
  if (node.kind === 'group') return `${node.instances.length} ${node.role ?? ''}`;
  return node.instances[0]?.name ?? node.id;
}

function secondLine(node: TopologyNode, engine: EngineState): string {
  if (node.kind === 'clients') return `${formatRate(engine.totals.requestsPerSecond)} req/s`;
  if (node.kind === 'proxy') {
    const { addedMs } = engine.latency;
    return addedMs === undefined || addedMs.n === 0 ? `${formatInteger(engine.totals.running)} in flight` : `${formatMs(addedMs.p50)} ms p50 added`;
  }
  if (node.kind === 'group') return describeGroup(node.instances);
  const [instance] = node.instances;
  return instance === undefined ? '' : describeNode(instance, node.role);
}

function describeNode(instance: InstanceView, role: Role | undefined): string {
  if (instance.state === 'draining') return `draining ${formatInteger(instance.inFlight)}`;
  if (instance.state === 'down') return `${TONE_SHAPE.error} down`;
  if (instance.state !== 'up') return instance.state;
  if (instance.breaker === 'open') return `${TONE_SHAPE.warning} breaker open`;
  const { tokensPerSecond } = instance;
  if (tokensPerSecond === undefined || role === 'encode') return `${formatInteger(instance.inFlight)} in flight`;
  return `${formatInteger(instance.inFlight)} · ${formatCompact(Math.round(tokensPerSecond))} tok/s`;
}

function describeGroup(instances: readonly InstanceView[]): string {
  const up = instances.filter(isServing).length;
  const inFlight = instances.reduce((sum, instance) => sum + instance.inFlight, 0);
  return up === instances.length ? formatCount(inFlight, 'in flight', 'in flight') : `${TONE_SHAPE.warning} ${up} up · ${formatInteger(inFlight)}`;
}

function isServing(instance: InstanceView): boolean {
  return instance.state === 'up' && instance.breaker === 'closed';
}
