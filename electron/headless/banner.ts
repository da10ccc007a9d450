/** What `serve` prints when it runs: where to go, nothing else. */
import type { Role } from '#shared/vocabulary.ts';

export interface BannerFacts {
  readonly version: string;
  readonly loginUrl: string;
  readonly proxyUrl: string;
  readonly controlPort: number;
  readonly proxyPort: number;
  /** Whether the control port is reached from this machine only. */
  readonly isControlLocal: boolean;
  readonly isProxyLocal: boolean;
  /** `user@host` as an ssh client would write it. */
  readonly sshTarget: string;
  /** Instances by role. */
  readonly counts: Readonly<Record<Role, number>>;
  readonly isDemo: boolean;
  /** Where engines register by themselves; absent unless the protocol in force has that. */
  readonly registration?: string;
}

export function bannerText(facts: BannerFacts): string {
  const { version, loginUrl, proxyUrl, counts, isDemo, registration } = facts;
  const roles = (Object.entries(counts) as [Role, number][]).filter(([, count]) => count > 0).map(([role, count]) => `${count} ${role}`);
  const empty = registration === undefined ? 'no instances yet: add them in the dashboard' : 'no instances yet: they register by themselves';
  const fleet = roles.length === 0 ? empty : roles.join(', ');
  const lines = [
    `pdscope ${version}: ${isDemo ? 'demo, simulated: ' : ''}${fleet}`,
    `  dashboard  ${loginUrl}`,
    `  proxy      ${proxyUrl}`,
    ...(registration === undefined ? [] : [`  register   ${registration}`]),
    ...(facts.isControlLocal ? [`  remote     ${sshLine(facts)}`] : []),
    '  stop       Ctrl+C',
  ];
  return `${lines.join('\n')}\n`;
}

/** The tunnel keeps the port numbers, so that the dashboard's link works on both ends. */
function sshLine({ controlPort, proxyPort, isProxyLocal, sshTarget }: BannerFacts): string {
  const forward = (port: number): string => `-L ${port}:127.0.0.1:${port}`;
  return ['ssh', forward(controlPort), ...(isProxyLocal ? [forward(proxyPort)] : []), sshTarget].join(' ');
}

/** Who would log in where: the address that this very ssh session came in on, else the machine's name. */
export function sshTarget(user: string, machine: string, env: Readonly<Record<string, string | undefined>>): string {
  // SSH_CONNECTION: client address, client port, server address, server port (sshd(8)).
  const server = env['SSH_CONNECTION']?.split(' ')[2];
  return `${user}@${server ?? machine}`;
}
