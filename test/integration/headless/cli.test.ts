import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { waitFor } from '../engine/wait-for.ts';
import { buildCli, type Cli } from './cli-process.ts';

const ANY_PORTS = ['--port', '0', '--control-port', '0', '--no-open'];

describe('command line', () => {
  let cli: Cli;
  beforeAll(async () => {
    cli = await buildCli();
  });
  afterAll(() => cli.close());

  it('serves the demo, is driven by call and link, and stops cleanly on SIGINT', async () => {
    const serve = cli.run(['serve', '--demo', '1P1D', ...ANY_PORTS]);
    const [, link = ''] = await serve.sees(/dashboard {2}(http:\/\/127\.0\.0\.1:\d+\/login\?token=\S+)/u);
    expect(serve.out()).toMatch(/^pdscope \d+\.\d+\.\d+: demo, simulated: 1 prefill, 1 decode\n/u);
    const controlPort = new URL(link).port;
    const proxyPort = /proxy {6}http:\/\/127\.0\.0\.1:(\d+)\/v1/u.exec(serve.out())?.[1];
    expect(serve.out()).toContain(`ssh -L ${controlPort}:127.0.0.1:${controlPort} -L ${proxyPort}:127.0.0.1:${proxyPort} `);

    const state = await cli.finish(['call', 'state.get']);
    expect(state.code).toBe(0);
    expect(JSON.parse(state.out)).toMatchObject({ host: 'headless', connector: 'nixl', simulation: { requestsPerSecond: 6 } });
    const bad = await cli.finish(['call', 'policy.set', '{"policy":"best"}', '--control', `http://127.0.0.1:${controlPort}`]);
    expect(bad.code).toBe(1);
    expect(bad.err).toMatch(/^pdscope: policy\.set: policy: .*"round-robin"/u);
    const fresh = await cli.finish(['link']);
    expect(fresh.code).toBe(0);
    expect(fresh.out).toMatch(new RegExp(`^http://127\\.0\\.0\\.1:${controlPort}/login\\?token=[\\w-]{43}\\n$`, 'u'));
    expect(fresh.out).not.toBe(`${link}\n`);

    serve.child.kill('SIGINT');
    expect(await serve.ended).toBe(0);
    expect(serve.err()).toMatch(/pdscope: stopping, (nothing|\d+ requests?) in flight/u);
    const gone = await cli.finish(['call']);
    expect(gone.code).toBe(2);
    expect(gone.err).toContain('No pdscope of this user runs on this machine');
  });

  it('starts empty, with a fixed token for automation, and logs JSON when asked', async () => {
    const serve = cli.run(['serve', ...ANY_PORTS, '--log-level', 'info', '--log-format', 'json'], { PDSCOPE_TOKEN: 'sesame' });
    const [, control = ''] = await serve.sees(/dashboard {2}(\S+)\/login\?token=sesame/u);
    expect(serve.out()).toContain('no instances yet: add them in the dashboard');
    const listed = await cli.finish(['call', '--control', control, '--token', 'sesame']);
    expect(listed.out).toContain('instance.add');
    const refused = await cli.finish(['call', 'state.get', '--control', control, '--token', 'wrong']);
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('Sign in') });
    for (const line of serve.err().trim().split('\n')) expect(JSON.parse(line)).toMatchObject({ level: 30, msg: expect.any(String) });
    expect(serve.err()).not.toContain('sesame');
    serve.child.kill('SIGTERM');
    expect(await serve.ended).toBe(0);
  });

  it('says which port is taken and what to do, with exit code 3', async () => {
    const blocker = createServer();
    const port = await new Promise<number>((resolve) => {
      blocker.listen(0, '127.0.0.1', () => resolve((blocker.address() as { readonly port: number }).port));
    });
    try {
      const [control, proxy, sim] = await Promise.all([
        cli.finish(['serve', '--port', '0', '--control-port', String(port)]),
        cli.finish(['serve', '--port', String(port), '--control-port', '0']),
        cli.finish(['sim', '--role', 'decode', '--port', String(port)]),
      ]);
      expect(control).toMatchObject({ code: 3, out: '', err: expect.stringContaining('--control-port') });
      expect(proxy).toMatchObject({ code: 3, out: '', err: expect.stringContaining('--port') });
      expect(sim).toMatchObject({ code: 3, out: '', err: expect.stringContaining(String(port)) });
    } finally {
      blocker.close();
    }
  });

  it('ends with 2 on wrong usage, and says what is allowed', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'pdscope-config-'));
    const config = join(dir, 'c.yaml');
    await writeFile(config, 'port: 8000\npolicy: bset\n');
    try {
      const results = await Promise.all([
        cli.finish(['serve', '--config', config]),
        cli.finish(['serve', '--prefill', 'ftp://h:1', ...ANY_PORTS]),
        cli.finish(['serve', '--control-host', '0.0.0.0', '--port', '0']),
        cli.finish(['sim', '--role', 'cook']),
        cli.finish(['events', 'tcp://h']),
        cli.finish(['events', 'tcp://h:1', '--from', '3']),
        cli.finish(['sevre']),
        cli.finish([]),
      ]);
      expect(results.map(({ code }) => code)).toEqual([2, 2, 2, 2, 2, 2, 2, 2]);
      const errors = results.map(({ err }) => err);
      expect(errors[0]).toContain(`${config}:2:9: policy: Invalid option`);
      expect(errors[1]).toContain('ftp');
      expect(errors[2]).toContain('--allow-remote-control');
      expect(errors[3]).toContain('encode, prefill, decode, both');
      expect(errors[4]).toContain('port is missing');
      expect(errors[5]).toContain('--replay');
      expect(errors[6]).toContain('Did you mean serve?');
      expect(errors[7]).toContain('Usage: pdscope');
    } finally {
      await rm(dir, { recursive: true });
    }
  });

  it('takes it well when the reader of its output leaves early', async () => {
    const help = cli.run(['serve', '--help']);
    help.child.stdout?.destroy();
    expect(await help.ended).toBe(0);
    expect(help.err()).toBe('');
  });

  it('has help worth reading, with examples and exit codes, on stdout', async () => {
    const [top, serve, version] = await Promise.all([cli.finish(['--help']), cli.finish(['serve', '--help']), cli.finish(['--version'])]);
    expect(top).toMatchObject({ code: 0, err: '' });
    expect(top.out).toContain('pdscope serve --demo');
    expect(top.out).toContain('Exit codes:');
    expect(serve).toMatchObject({ code: 0, err: '' });
    for (const text of ['--kv-events <instance=endpoint>', 'ADMIN_API_KEY', 'Control port', '(default: 7080)']) expect(serve.out).toContain(text);
    expect(version.out).toMatch(/^\d+\.\d+\.\d+\n$/u);
  });

  it('simulates an instance whose events print live, replayed, and as JSON', async () => {
    const sim = cli.run(['sim', '--role', 'prefill', '--kv-events-port', '0', '--speed', '20', '--block-size', '8']);
    const [, url = ''] = await sim.sees(/ at (http:\/\/\S+)\n/u);
    const [, endpoint = ''] = await sim.sees(/KV events {2}(tcp:\/\/[^\s,]+), topic "kv-events"/u);
    const [, replay = ''] = await sim.sees(/replay {5}(tcp:\/\/\S+)/u);
    const prompt = (n: number) =>
      fetch(`${url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'sim/Qwen3-8B', prompt: `run ${n} ${'block '.repeat(40)}`, max_tokens: 1 }),
      });

    const live = cli.run(['events', endpoint]);
    await live.sees(/pdscope: connected/u);
    // The subscription reaches the publisher some time after the connection stands.
    await waitFor('an event is printed', async () => {
      await prompt(Math.random());
      return live.out().includes(' stored ');
    });
    expect(live.out()).toMatch(/^\d\d:\d\d:\d\d\.\d{3} #\d+ +stored +\d+ blocks [0-9a-f]{16} /u);
    live.child.kill('SIGINT');
    expect(await live.ended).toBe(0);
    expect(live.err()).toMatch(/\d+ batches, \d+ events in .*, 0 gaps, 0 batches lost, 0 bad\n$/u);

    // What `| head` does: an end like any other, with its summary.
    const piped = cli.run(['events', endpoint, '--replay', replay]);
    await piped.sees(/ stored /u);
    piped.child.stdout?.destroy();
    // What is replayed may come before the subscription has reached the publisher: the next event is then not seen yet.
    await waitFor('it writes once more, and ends', async () => {
      await prompt(Math.random());
      return piped.child.exitCode !== null;
    });
    expect(await piped.ended).toBe(0);
    expect(piped.err()).toMatch(/\d+ batches, \d+ events in .*, 0 bad\n$/u);

    const again = await cli.finish(['events', endpoint, '--replay', replay, '--json', '--count', '1']);
    expect(again.code).toBe(0);
    expect(JSON.parse(again.out)).toMatchObject({ kind: 'stored', seq: 0, replayed: true, blockSize: 8, medium: 'GPU' });

    sim.child.kill('SIGTERM');
    expect(await sim.ended).toBe(0);
  });

  it('ends at once on a second signal, whatever still runs', async () => {
    // So slow that its prefill never ends within this test.
    const sim = cli.run(['sim', '--role', 'both', '--speed', '0.001']);
    const [, url = ''] = await sim.sees(/ at (http:\/\/\S+)\n/u);
    // A machine that stalls for half a second in between may let it close before the second signal: no word against it.
    let attempt = await signalledTwice(cli, url);
    for (let tries = 1; attempt.code === 0 && tries < 5; tries += 1) attempt = await signalledTwice(cli, url);
    expect(attempt).toEqual({ code: 130, answer: 'cut' });
    sim.child.kill('SIGTERM');
    expect(await sim.ended).toBe(0);
  });
});

/** Sends signals while a request runs over the instance: how the host ended, and what became of the request. */
async function signalledTwice(cli: Cli, instanceUrl: string): Promise<{ readonly code: unknown; readonly answer: unknown }> {
  const serve = cli.run(['serve', '--both', instanceUrl, ...ANY_PORTS, '--connector', 'plain']);
  const [, proxy = ''] = await serve.sees(/proxy {6}(\S+)\/v1/u);
  await waitFor('the instance is up', async () => (await fetch(`${proxy}/health`)).ok);
  const answer = fetch(`${proxy}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"model":"sim/Qwen3-8B","prompt":"x"}',
  }).then(({ status }) => status, () => 'cut');
  await waitFor('the request is under way', async () => /^pdscope_requests_in_flight 1$/mu.test(await (await fetch(`${proxy}/metrics`)).text()));
  serve.child.kill('SIGINT');
  const repeat = setInterval(() => serve.child.kill('SIGINT'), 50);
  try {
    const code = await serve.ended;
    expect(serve.err()).toMatch(/stopping, 1 request in flight is cut/u);
    return { code, answer: await answer };
  } finally {
    clearInterval(repeat);
  }
}
