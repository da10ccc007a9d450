import { describe, expect, it } from 'vitest';
import { collectDetails, exportText, MOST_EXPORTED } from '../../../renderer/src/features/requests/export/collect.ts';
import { shellQuote, toCurl, toPython } from '../../../renderer/src/features/requests/export/commands.ts';
import { isSecretField, isSecretHeader, redactHeaders, redactJson, redactUrl } from '../../../renderer/src/features/requests/export/redact.ts';
import type { RequestDetail } from '#shared/request.ts';
import { sampleDetail, sampleLeg, sampleRow } from './sample-requests.ts';

const PROXY = 'http://127.0.0.1:8000/v1';
const SECRETS = /sk-very-secret|session=abc/;

function withBody(text: string, isCut = false): RequestDetail {
  return sampleDetail(sampleRow(1), { clientBody: { text, bytes: isCut ? 90_000 : text.length, isCut } });
}

describe('redaction', () => {
  it('knows secrets by name, and leaves token counts alone', () => {
    expect(['Authorization', 'COOKIE', 'set-cookie', 'x-api-key', 'api_key', 'X-Auth-Tokens', 'openai-organization-token'].map(isSecretHeader)).toEqual(Array.from({ length: 7 }, () => true));
    expect(['content-type', 'x-request-id', 'user-agent'].map(isSecretHeader)).toEqual([false, false, false]);
    expect(['max_tokens', 'min_tokens', 'return_token_ids', 'tokenizer'].map(isSecretField)).toEqual([false, false, false, false]);
    expect(['api_key', 'access_token', 'password'].map(isSecretField)).toEqual([true, true, true]);
  });

  it('replaces values, keeps names, goes to any depth', () => {
    expect(redactHeaders({ Authorization: 'Bearer x', accept: '*/*' })).toEqual({ Authorization: '[redacted]', accept: '*/*' });
    expect(redactJson({ a: [{ api_key: 'x', max_tokens: 5 }], n: null })).toEqual({ a: [{ api_key: '[redacted]', max_tokens: 5 }], n: null });
    expect(redactUrl('http://user:pass@host/v1?api_key=x&q=1')).toBe('http://host/v1?api_key=%5Bredacted%5D&q=1');
  });
});

describe('toCurl', () => {
  it('sends the captured body, asks for the key, and leaves out what the client sets itself', () => {
    const command = toCurl(withBody('{"model":"m","messages":[{"role":"user","content":"it\'s"}]}'), PROXY);
    expect(command).toBe(
      [
        "curl -N 'http://127.0.0.1:8000/v1/chat/completions'",
        "-H 'content-type: application/json'",
        "-H 'user-agent: OpenAI/Python 2.1'",
        '-H "authorization: Bearer $OPENAI_API_KEY"',
        String.raw`--data-binary '{"model":"m","messages":[{"role":"user","content":"it'\''s"}]}'`,
      ].join(' \\\n  ') + '\n',
    );
    expect(command).not.toMatch(SECRETS);
  });

  it('says when the body was not captured, or only in part', () => {
    expect(toCurl(sampleDetail(sampleRow(1)), PROXY)).toMatch(/^# The body was not captured: .*\ncurl [^]*--data-binary @request\.json\n$/);
    expect(toCurl(withBody('{"mod', true), PROXY)).toMatch(/^# The captured body was cut \(5 of 90000 bytes\)/);
  });

  it('quotes so that a shell reads it back', () => {
    expect(shellQuote("a'b $c `d`")).toBe(String.raw`'a'\''b $c ` + "`d`'");
  });
});

describe('toPython', () => {
  it('streams when the original did, and names the key instead of writing it', () => {
    const script = toPython(withBody('{"model":"m"}'), PROXY);
    expect(script).toContain('body = json.loads("{\\"model\\":\\"m\\"}")');
    expect(script).toContain('os.environ[\'OPENAI_API_KEY\']');
    expect(script).toContain('stream=True');
    expect(script).not.toMatch(SECRETS);
    expect(toPython(sampleDetail(sampleRow(4)), PROXY)).toContain('# The body was not captured');
  });
});

describe('exports', () => {
  const bodies = { text: '{"prompt":"my secret plans","api_key":"sk-very-secret"}', bytes: 50, isCut: false };
  const detail = sampleDetail(sampleRow(1), { clientBody: bodies, legs: [sampleLeg(sampleRow(1), 'prefill', { requestBody: bodies, responseBody: bodies }), sampleLeg(sampleRow(1), 'decode')] });
  const options = { withBodies: false, version: '0.1.0', proxyUrl: PROXY };

  it('writes one sanitized detail per line', () => {
    const text = exportText('jsonl', [detail, detail], options);
    expect(text.trimEnd().split('\n')).toHaveLength(2);
    expect(text).not.toMatch(SECRETS);
    expect(text).not.toContain('my secret plans');
    expect(JSON.parse(text.split('\n')[0] ?? '')).toMatchObject({ row: { id: 'r1' }, clientHeaders: { Authorization: '[redacted]' } });
  });

  it('includes bodies only when asked, without the keys in them', () => {
    const text = exportText('jsonl', [detail], { ...options, withBodies: true });
    expect(text).toContain('my secret plans');
    expect(text).not.toMatch(SECRETS);
  });

  it('writes a HAR with an entry for the client and for each leg', () => {
    const har = JSON.parse(exportText('har', [detail], options)) as { log: { version: string; entries: { comment: string; time: number; timings: { wait: number; receive: number }; response: { status: number } }[] } };
    expect(har.log.version).toBe('1.2');
    expect(har.log.entries.map((entry) => entry.comment.split(',')[0])).toEqual(['client', 'prefill leg on P1', 'decode leg on D1']);
    const [client] = har.log.entries;
    expect(client?.time).toBe(detail.row.e2elMs);
    expect((client?.timings.wait ?? 0) + (client?.timings.receive ?? 0)).toBeCloseTo(detail.row.e2elMs ?? -1, 9);
    expect(JSON.stringify(har)).not.toMatch(SECRETS);
  });

  it('writes -1 for what was not observed, not 0', () => {
    const { ttftMs: _ttft, e2elMs: _e2el, status: _status, ...row } = sampleRow(1, { state: 'running' });
    const har = JSON.parse(exportText('har', [sampleDetail(row, { legs: [] })], options)) as { log: { entries: { time: number; timings: { wait: number; receive: number } }[] } };
    expect(har.log.entries[0]).toMatchObject({ time: -1, timings: { wait: -1, receive: -1 } });
  });
});

describe('collectDetails', () => {
  it('keeps the order, counts what is gone, and takes the newest when there are too many', async () => {
    const rows = Array.from({ length: MOST_EXPORTED + 5 }, (_, index) => sampleRow(index + 1));
    const progress: number[] = [];
    const { details, missing } = await collectDetails(rows, {
      get: async (id) => {
        if (id === 'r7') throw new Error('evicted');
        return sampleDetail(sampleRow(Number(id.slice(1))));
      },
      onProgress: (done) => progress.push(done),
      signal: new AbortController().signal,
    });
    expect(details.map((one) => one.row.n)).toEqual(rows.slice(5).map((row) => row.n).filter((n) => n !== 7));
    expect(missing).toBe(6);
    expect(progress.at(-1)).toBe(MOST_EXPORTED);
  });
});
