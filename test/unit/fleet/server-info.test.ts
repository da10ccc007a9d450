import { describe, expect, it } from 'vitest';
import { discoverKvEvents } from '#engine/fleet/kv-events-discovery.ts';
import { serverFactsOf } from '#engine/fleet/server-info.ts';

const CONFIG = {
  cache_config: { block_size: 16 },
  parallel_config: { tensor_parallel_size: 2, pipeline_parallel_size: 1, data_parallel_size: 4 },
  kv_transfer_config: {
    kv_connector: 'NixlConnector', engine_id: 'e-1', kv_role: 'kv_producer', kv_load_failure_policy: 'fail', kv_connector_extra_config: { bidirectional_kv_xfer: true },
  },
};

describe('/server_info', () => {
  it('gives the facts of the transfer and the ranks', () => {
    expect(serverFactsOf({ vllm_config: CONFIG })).toEqual({
      dpSize: 4,
      transfer: {
        kvConnector: 'NixlConnector', kvRole: 'kv_producer', engineId: 'e-1', loadFailurePolicy: 'fail', tpSize: 2, ppSize: 1, blockSize: 16,
        extraConfig: { bidirectional_kv_xfer: true },
      },
    });
  });

  it.each([
    ['external balancing: the header names one rank', { data_parallel_size: 8, data_parallel_external_lb: true }, 1],
    ['hybrid balancing: the local ranks', { data_parallel_size: 8, data_parallel_size_local: 2, data_parallel_hybrid_lb: true }, 2],
    ['internal balancing: all ranks', { data_parallel_size: 8, data_parallel_size_local: 2 }, 8],
    ['nothing said', {}, undefined],
    ['nonsense', { data_parallel_size: -1 }, undefined],
    ['more than any engine has', { data_parallel_size: 1025 }, undefined],
  ])('reads the number of ranks: %s', (_name, parallel, expected) => {
    expect(serverFactsOf({ vllm_config: { ...CONFIG, parallel_config: parallel } })?.dpSize).toBe(expected);
  });

  it('leaves out an extra configuration that is too large to keep', () => {
    const transfer = { ...CONFIG.kv_transfer_config, kv_connector_extra_config: { note: 'x'.repeat(20_000) } };
    const facts = serverFactsOf({ vllm_config: { ...CONFIG, kv_transfer_config: transfer } });
    expect(facts?.transfer).toMatchObject({ kvConnector: 'NixlConnector', engineId: 'e-1' });
    expect(facts?.transfer.extraConfig).toBeUndefined();
  });

  it('takes an engine without a KV connector', () => {
    expect(serverFactsOf({ vllm_config: { ...CONFIG, kv_transfer_config: null } })?.transfer).toEqual({ tpSize: 2, ppSize: 1, blockSize: 16 });
  });

  it.each([undefined, null, 'text', {}, { vllm_config: 'a string form' }, { vllm_config: {} }, { detail: 'Not Found' }])('finds nothing in %j', (body) => {
    expect(serverFactsOf(body)).toBeUndefined();
  });
});

describe('where KV events are', () => {
  const events = { enable_kv_cache_events: true, publisher: 'zmq', endpoint: 'tcp://*:5557', replay_endpoint: 'tcp://*:5558', topic: 'kv@p0' };

  it('are told by the engine', () => {
    expect(serverFactsOf({ vllm_config: { kv_events_config: events } })?.kvEvents).toEqual({ endpoint: 'tcp://*:5557', replayEndpoint: 'tcp://*:5558', topic: 'kv@p0' });
    for (const off of [{ ...events, enable_kv_cache_events: false }, { ...events, publisher: 'null' }, { ...events, endpoint: null }, null]) {
      expect(serverFactsOf({ vllm_config: { ...CONFIG, kv_events_config: off } })?.kvEvents).toBeUndefined();
    }
  });

  it('are told without a replay socket when that keeps no batches', () => {
    expect(serverFactsOf({ vllm_config: { kv_events_config: { ...events, buffer_steps: 0 } } })?.kvEvents).toEqual({ endpoint: 'tcp://*:5557', topic: 'kv@p0' });
    expect(serverFactsOf({ vllm_config: { kv_events_config: { ...events, buffer_steps: 1 } } })?.kvEvents?.replayEndpoint).toBe('tcp://*:5558');
  });

  it.each([
    ['one rank of a later node', { data_parallel_external_lb: true, data_parallel_size: 16, data_parallel_rank: 9 }, 9],
    ['one whose rank is told as its index', { data_parallel_external_lb: true, data_parallel_size: 1, data_parallel_rank: 0, data_parallel_index: 3 }, 3],
    ['several ranks of a later node', { data_parallel_hybrid_lb: true, data_parallel_size: 16, data_parallel_size_local: 8, data_parallel_rank: 8 }, 8],
    ['the first node', { data_parallel_hybrid_lb: true, data_parallel_size: 16, data_parallel_size_local: 8, data_parallel_rank: 0 }, undefined],
    ['all ranks behind one address', { data_parallel_size: 16, data_parallel_rank: 8 }, undefined],
  ])('begin at the first rank of the instance: %s', (_name, parallel, expected) => {
    expect(serverFactsOf({ vllm_config: { parallel_config: parallel, kv_events_config: events } })?.kvEvents?.firstRank).toBe(expected);
  });

  it.each([
    ['http://10.0.0.1:8000', { endpoint: 'tcp://*:5557', topic: '', replayEndpoint: 'tcp://*:5600', firstRank: 9 }, { endpoint: 'tcp://10.0.0.1:5566', replayEndpoint: 'tcp://10.0.0.1:5609' }],
    ['http://10.0.0.1:8000', { endpoint: 'tcp://*:65535', topic: '', firstRank: 9 }, undefined],
    ['http://10.0.0.1:8000', { endpoint: 'tcp://*:5557', topic: '' }, { endpoint: 'tcp://10.0.0.1:5557' }],
    ['http://[fd00::1]:8000', { endpoint: 'tcp://[::]:5557', topic: 'kv', replayEndpoint: 'tcp://0.0.0.0:5558' }, { endpoint: 'tcp://[fd00::1]:5557', topic: 'kv', replayEndpoint: 'tcp://[fd00::1]:5558' }],
    ['http://10.0.0.1:8000', { endpoint: 'tcp://10.0.0.9:5557', topic: '' }, undefined],
    ['http://10.0.0.1:8000', { endpoint: 'ipc:///tmp/kv', topic: '' }, undefined],
    ['http://127.0.0.1:8000', { endpoint: 'ipc:///tmp/kv', topic: '' }, { endpoint: 'ipc:///tmp/kv' }],
  ])('of %s, which says %j, are at %j', (origin, told, expected) => {
    const found = discoverKvEvents(origin, told);
    expect(found && { ...found, ranks: undefined, mode: undefined }).toEqual(expected && { topic: '', ...expected });
  });
});

describe('KV bytes per token', () => {
  const hf = { model_type: 'llama', num_hidden_layers: 32, num_attention_heads: 32, num_key_value_heads: 8, hidden_size: 4096, head_dim: 128, sliding_window: null };
  const config = (part: { readonly hf?: object; readonly cache?: object; readonly parallel?: object; readonly model?: object } = {}): object => ({
    model_config: { dtype: 'torch.bfloat16', hf_config: { ...hf, ...part.hf }, ...part.model },
    cache_config: { cache_dtype: 'auto', ...part.cache },
    parallel_config: { tensor_parallel_size: 1, ...part.parallel },
  });
  const bytes = (vllm: object): number | undefined => serverFactsOf({ vllm_config: vllm })?.transfer.kvBytesPerToken;
  const LLAMA_8B = 2 * 32 * 8 * 128 * 2;

  it.each([
    ['a plain model', config(), LLAMA_8B],
    ['the class printed as text', config({ model: { hf_config: `LlamaConfig ${JSON.stringify(hf, undefined, 2)}\n` } }), LLAMA_8B],
    ['the text part of a larger model', config({ model: { hf_config: { model_type: 'llava' }, hf_text_config: hf } }), LLAMA_8B],
    ['an eight-bit cache', config({ cache: { cache_dtype: 'fp8_e4m3' } }), LLAMA_8B / 2],
    ['no head size told', config({ hf: { head_dim: null } }), LLAMA_8B],
    ['no grouped heads', config({ hf: { num_key_value_heads: null } }), LLAMA_8B * 4],
    ['ranks that share the heads', config({ parallel: { tensor_parallel_size: 4 } }), LLAMA_8B],
    ['more ranks than heads: copies', config({ parallel: { tensor_parallel_size: 16 } }), LLAMA_8B * 2],
    ['a window that is off', config({ hf: { model_type: 'qwen2', sliding_window: 4096, use_sliding_window: false } }), LLAMA_8B],
    ['a window', config({ hf: { model_type: 'mistral', sliding_window: 4096 } }), undefined],
    ['layers of two kinds', config({ hf: { layer_types: ['full_attention', 'sliding_attention'] } }), undefined],
    ['latent attention', config({ hf: { model_type: 'deepseek_v3', kv_lora_rank: 512 } }), undefined],
    ['a scheme of the checkpoint', config({ hf: { quantization_config: { kv_cache_scheme: { num_bits: 8 } } } }), undefined],
    ['context parallelism', config({ parallel: { decode_context_parallel_size: 2 } }), undefined],
    ['an unknown data type', config({ cache: { cache_dtype: 'nvfp4' } }), undefined],
    ['text that is no configuration', config({ model: { hf_config: 'LlamaConfig {' } }), undefined],
  ])('%s', (_what, vllm, expected) => {
    expect(bytes(vllm)).toBe(expected);
  });
});
