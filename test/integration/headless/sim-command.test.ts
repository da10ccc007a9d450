/** `pdscope sim` as a process: what each protocol prints, and flags that do not go together. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { requestReplay } from '#engine/kv-events/replay-client.ts';
import { waitFor } from '../engine/wait-for.ts';
import { freePorts } from '../kv-events/publisher.ts';
import { buildCli, type Cli } from './cli-process.ts';

describe('pdscope sim', () => {
  let cli: Cli;
  beforeAll(async () => {
    cli = await buildCli();
  });
  afterAll(() => cli.close());

  it('runs a Mooncake producer and prints its bootstrap server, which knows its workers', async () => {
    const sim = cli.run(['sim', '--role', 'prefill', '--transfer', 'mooncake', '--dp-size', '2', '--bootstrap-port', '0']);
    const [, bootstrap = ''] = await sim.sees(/bootstrap {2}(http:\/\/127\.0\.0\.1:\d+)\n/u);
    // Workers register one after the other, in the background.
    const table = await waitFor('both workers are registered', async () => {
      const answer = (await (await fetch(`${bootstrap}/query`)).json()) as Record<string, { engine_id: string }>;
      return Object.keys(answer).length >= 2 && answer;
    });
    expect(Object.keys(table)).toEqual(['0', '1']);
    sim.child.kill('SIGTERM');
    expect(await sim.ended).toBe(0);
  });

  it('runs a MoRIIO engine and prints its addresses', async () => {
    const peerPort = await freePorts(2);
    const sim = cli.run(['sim', '--role', 'decode', '--transfer', 'moriio', '--moriio-proxy', '127.0.0.1:1', '--moriio-mode', 'READ', '--peer-port', String(peerPort)]);
    const [, handshake] = await sim.sees(/zmq {8}host:127\.0\.0\.1,handshake:(\d+),notify:\d+\n {2}registers {2}at 127\.0\.0\.1:1\n/u);
    expect(handshake).toBe(String(peerPort));
    const [, url = ''] = /instance of .* at (\S+)\n/u.exec(sim.out()) ?? [];
    const info = (await (await fetch(`${url}/server_info?config_format=json`)).json()) as { vllm_config: { kv_transfer_config: object } };
    expect(info.vllm_config.kv_transfer_config).toMatchObject({
      kv_connector: 'MoRIIOConnector', kv_role: 'kv_consumer', kv_connector_extra_config: { proxy_ip: '127.0.0.1', proxy_ping_port: 1, read_mode: true },
    });
    sim.child.kill('SIGTERM');
    expect(await sim.ended).toBe(0);
  });

  it('hands the other flags on', async () => {
    const flags = ['--bidirectional', '--blocks-ttl', '20s', '--lease', '5s', '--kv-role', 'kv_both', '--load-failure-policy', 'recompute', '--profiler', '--params-in-stream', '--lora', 'sql', 'chat'];
    const sim = cli.run(['sim', '--role', 'both', ...flags]);
    const [, url = ''] = await sim.sees(/instance of .* at (\S+)\n/u);
    const info = (await (await fetch(`${url}/server_info?config_format=json`)).json()) as { vllm_config: { kv_transfer_config: object } };
    expect(info.vllm_config.kv_transfer_config).toMatchObject({
      kv_connector: 'NixlConnector', kv_role: 'kv_both', kv_load_failure_policy: 'recompute',
      kv_connector_extra_config: { kv_lease_duration: 5, bidirectional_kv_xfer: true, decoder_kv_blocks_ttl: 20 },
    });
    expect((await fetch(`${url}/start_profile`, { method: 'POST' })).status).toBe(200);
    const models = (await (await fetch(`${url}/v1/models`)).json()) as { readonly data: readonly { readonly id: string }[] };
    expect(models.data.map(({ id }) => id)).toEqual(['sim/Qwen3-8B', 'sql', 'chat']);
    sim.child.kill('SIGTERM');
    expect(await sim.ended).toBe(0);
  });

  it('publishes without a replay socket, or with an old and short one', async () => {
    const without = cli.run(['sim', '--role', 'both', '--kv-events-port', '0', '--no-replay']);
    await without.sees(/stop {7}Ctrl/u);
    expect(without.out()).not.toContain('replay ');
    const old = cli.run(['sim', '--role', 'both', '--kv-events-port', '0', '--replay-layout', 'bare', '--replay-buffer', '1', '--block-size', '8', '--speed', '50']);
    const [, url = ''] = await old.sees(/ at (http:\S+)\n/u);
    const [, endpoint = ''] = await old.sees(/replay {5}(tcp:\S+)\n/u);
    for (const n of [1, 2]) {
      await fetch(`${url}/v1/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model: 'sim/Qwen3-8B', prompt: `run ${n} ${'block '.repeat(40)}`, max_tokens: 1 }) });
    }
    expect(await requestReplay({ endpoint, from: 0, onMessage: () => true })).toEqual({ status: 'complete', messages: 1, badReplies: 0, layout: 'bare' });
    for (const { child, ended } of [without, old]) {
      child.kill('SIGTERM');
      expect(await ended).toBe(0);
    }
  });

  it('refuses flags that say nothing to the transfer chosen', async () => {
    const results = await Promise.all([
      cli.finish(['sim', '--role', 'decode', '--transfer', 'nixl-push', '--bidirectional']),
      cli.finish(['sim', '--role', 'prefill', '--bootstrap-port', '8998']),
      cli.finish(['sim', '--role', 'prefill', '--transfer', 'mooncake', '--moriio-proxy', 'h:1']),
      cli.finish(['sim', '--role', 'prefill', '--transfer', 'moriio', '--moriio-proxy', 'nowhere']),
      cli.finish(['sim', '--role', 'prefill', '--transfer', 'carrier-pigeon']),
      cli.finish(['sim', '--role', 'prefill', '--kv-events-port', '0', '--no-replay', '--replay-buffer', '5']),
    ]);
    expect(results.map(({ code }) => code)).toEqual([2, 2, 2, 2, 2, 2]);
    expect(results[0]?.err).toContain('--bidirectional needs --transfer nixl, not nixl-push.');
    expect(results[1]?.err).toContain('--bootstrap-port needs --transfer mooncake, not nixl.');
    expect(results[3]?.err).toContain('host:port');
  });

  it('shows every protocol in its help, no line wider than a terminal', async () => {
    const { out } = await cli.finish(['sim', '--help']);
    for (const name of ['nixl-bidirectional', 'nixl-push', 'mooncake', 'moriio', 'aggregated']) expect(out).toContain(`--connector ${name}`);
    expect(Math.max(...out.split('\n').map((line) => line.length))).toBeLessThanOrEqual(104);
  });
});
