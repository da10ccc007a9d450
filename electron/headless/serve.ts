/** Runs `pdscope serve`: the engine, the control port, the lines on stdout, and the end. */
import { hostname, userInfo } from 'node:os';
import { fileURLToPath } from 'node:url';
import { createEngine, type Engine } from '#engine/engine.ts';
import { kindOfHost } from '#engine/fleet/host-kind.ts';
import type { Logger } from '#engine/log.ts';
import { errorMessage } from '#shared/errors.ts';
import { bannerText, sshTarget } from './banner.ts';
import type { ProgramOutput } from './command-context.ts';
import type { ServeSettings } from './config/resolve-serve.ts';
import { controlDir, writeControlFile } from './control-file.ts';
import { startControlServer, type ControlServer } from './control-server.ts';
import { createLogger } from './logger.ts';
import { openBrowser } from './open-browser.ts';
import { stopOnSignals } from './shutdown.ts';

/** The built page lies beside the built command: out/headless/ and out/renderer/, also from a chunk of it. */
function rendererDir(): string {
  const isChunk = /[/\\]chunks[/\\]/u.test(fileURLToPath(import.meta.url));
  return fileURLToPath(new URL(isChunk ? '../../renderer' : '../renderer', import.meta.url));
}

/** Starts everything and prints where it is; resolves when it runs. Throws PdscopeError (exit-codes.ts). */
export async function serve(settings: ServeSettings, output: ProgramOutput): Promise<void> {
  const logger = await createLogger(settings.log);
  const engine = await createEngine({ ...settings.engine, version: __PDSCOPE_VERSION__, host: 'headless', logger });
  let control: ControlServer;
  try {
    control = await startControlServer({
      engine,
      rendererDir: rendererDir(),
      version: __PDSCOPE_VERSION__,
      host: settings.control.host,
      port: settings.control.port,
      allowRemote: settings.control.allowRemote,
      logger,
      ...(settings.control.fixedToken !== undefined && { fixedToken: settings.control.fixedToken }),
    });
  } catch (error) {
    await engine.close();
    throw error;
  }
  const removeControlFile = await announceOnMachine(control, logger);

  stopOnSignals({
    say: (text) => output.err(`${text}\n`),
    announce: () => output.err(`pdscope: stopping, ${inFlightText(engine.state().totals.running)} (again to end at once)\n`),
    close: async () => {
      await Promise.all([control.close(), engine.close(), removeControlFile()]);
    },
  });
  const loginUrl = control.issueLoginUrl();
  output.out(await banner(engine, control, loginUrl));
  openBrowser(loginUrl, settings.open, logger);
}

/** For `pdscope call` and `pdscope link`; pdscope works without. */
async function announceOnMachine(control: ControlServer, logger: Logger): Promise<() => Promise<void>> {
  try {
    return await writeControlFile(controlDir(), control.port, {
      url: control.url,
      token: control.apiToken,
      pid: process.pid,
      startedAtUnixMs: Date.now(),
    });
  } catch (error) {
    logger.warn({ problem: errorMessage(error) }, 'pdscope call and link will not find this process by themselves');
    return async () => undefined;
  }
}

async function banner(engine: Engine, control: ControlServer, loginUrl: string): Promise<string> {
  const counts = { encode: 0, prefill: 0, decode: 0, both: 0 };
  const state = engine.state();
  for (const { role } of state.instances) counts[role] += 1;
  const { facts } = await engine.call('connector.status', {});
  const registration = facts.find(({ title }) => title === 'Registration socket')?.value;
  return bannerText({
    version: __PDSCOPE_VERSION__,
    loginUrl,
    proxyUrl: engine.proxyAddress.url,
    controlPort: control.port,
    proxyPort: engine.proxyAddress.port,
    isControlLocal: kindOfHost(control.host) === 'loopback',
    isProxyLocal: kindOfHost(engine.proxyAddress.host) === 'loopback',
    sshTarget: sshTarget(userInfo().username, hostname(), process.env),
    counts,
    isDemo: state.simulation !== undefined,
    ...(typeof registration === 'string' && { registration }),
  });
}

function inFlightText(running: number): string {
  if (running === 0) return 'nothing in flight';
  return running === 1 ? '1 request in flight is cut' : `${running} requests in flight are cut`;
}
