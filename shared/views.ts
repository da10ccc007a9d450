/** The views of the page: their order in the rail and the menu, their ids in links (`#/<id>`), their titles. */
export const VIEWS = ['overview', 'requests', 'kv-events', 'cache', 'instances', 'findings'] as const;
export type ViewId = (typeof VIEWS)[number];

export const VIEW_TITLES: Readonly<Record<ViewId, string>> = {
  overview: 'Overview',
  requests: 'Requests',
  'kv-events': 'KV events',
  cache: 'Cache',
  instances: 'Instances',
  findings: 'Findings',
};
