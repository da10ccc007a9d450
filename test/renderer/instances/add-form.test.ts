import { describe, expect, it } from 'vitest';
import { EMPTY_FIELDS, readFields } from '../../../renderer/src/features/instances/add-form.ts';

describe('readFields', () => {
  it('leaves out what is empty, so that the engine chooses', () => {
    expect(readFields({ ...EMPTY_FIELDS, role: 'decode', url: ' 10.0.0.2:8200 ' })).toEqual({ isValid: true, spec: { role: 'decode', url: '10.0.0.2:8200' } });
  });

  it('takes the KV-event settings when there is an endpoint', () => {
    expect(readFields({ ...EMPTY_FIELDS, url: 'h:1', name: 'left', endpoint: 'tcp://h:5557', replayEndpoint: 'tcp://h:5558', topic: 'kv', ranks: 2, mode: 'bind' })).toEqual({
      isValid: true,
      spec: { role: 'prefill', url: 'h:1', name: 'left', kvEvents: { endpoint: 'tcp://h:5557', replayEndpoint: 'tcp://h:5558', topic: 'kv', ranks: 2, mode: 'bind' } },
    });
  });

  it('sends a rank count that was given, and a bootstrap port only for what prefills', () => {
    const fields = { ...EMPTY_FIELDS, url: 'h:1', dpSize: 4, bootstrapPort: 9001 } as const;
    expect(readFields(fields)).toEqual({ isValid: true, spec: { role: 'prefill', url: 'h:1', dpSize: 4, bootstrapPort: 9001 } });
    expect(readFields({ ...fields, role: 'decode' })).toEqual({ isValid: true, spec: { role: 'decode', url: 'h:1', dpSize: 4 } });
    expect(readFields({ ...fields, bootstrapPort: 70_000 })).toMatchObject({ isValid: false, problems: { bootstrapPort: expect.any(String) as string } });
  });

  it('names the field that is wrong', () => {
    expect(readFields(EMPTY_FIELDS)).toEqual({ isValid: false, problems: { url: 'Enter host:port or http(s)://host:port.' } });
    expect(readFields({ ...EMPTY_FIELDS, url: 'h:1', endpoint: 'h:5557' })).toEqual({ isValid: false, problems: { endpoint: 'must start with tcp:// or ipc://' } });
    expect(readFields({ ...EMPTY_FIELDS, url: 'h:1', replayEndpoint: 'tcp://h:5558' })).toMatchObject({ isValid: false, problems: { endpoint: expect.stringContaining('replay') as string } });
  });
});
