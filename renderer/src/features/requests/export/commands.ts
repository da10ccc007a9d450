/** A request as a command somebody else can run: cURL and Python. Secrets are named, never written. */
import type { RequestDetail } from '#shared/request.ts';
import { requestPath } from '../request-path.ts';
import { hadCredentials, resendableHeaders } from './redact.ts';

interface Body {
  /** The JSON text to send; absent when there is none to be trusted. */
  readonly text?: string;
  /** Why there is none. */
  readonly note?: string;
}

/** The client's body, or the reason why it cannot be sent again. */
function bodyOf(detail: RequestDetail): Body {
  const body = detail.clientBody;
  if (body === undefined) return { note: 'The body was not captured: switch capture on and send the request again, or put it into request.json.' };
  if (body.isCut) return { note: `The captured body was cut (${body.text.length} of ${body.bytes} bytes): put the whole one into request.json.` };
  return { text: body.text };
}

function target(detail: RequestDetail, proxyUrl: string | undefined): string {
  const base = proxyUrl !== undefined && URL.canParse(proxyUrl) ? new URL(proxyUrl).origin : 'http://127.0.0.1:8000';
  return `${base}${requestPath(detail.row) ?? '/'}`;
}

/** Quotes for a POSIX shell. */
export function shellQuote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** A cURL command against the proxy. */
export function toCurl(detail: RequestDetail, proxyUrl: string | undefined): string {
  const { text, note } = bodyOf(detail);
  const headers = resendableHeaders(detail.clientHeaders).map(([name, value]) => `-H ${shellQuote(`${name}: ${value}`)}`);
  if (!headers.some((header) => /^-H 'content-type:/iu.test(header))) headers.unshift("-H 'content-type: application/json'");
  // Double quotes: the shell is to put the key in.
  if (hadCredentials(detail.clientHeaders)) headers.push('-H "authorization: Bearer $OPENAI_API_KEY"');
  const data = text === undefined ? '--data-binary @request.json' : `--data-binary ${shellQuote(text)}`;
  const lines = [`curl ${detail.row.isStream ? '-N ' : ''}${shellQuote(target(detail, proxyUrl))}`, ...headers, data];
  return `${note === undefined ? '' : `# ${note}\n`}${lines.join(' \\\n  ')}\n`;
}

/** A Python script with `requests`, streaming when the original did. */
export function toPython(detail: RequestDetail, proxyUrl: string | undefined): string {
  const { text, note } = bodyOf(detail);
  const headers = resendableHeaders(detail.clientHeaders).filter(([name]) => name.toLowerCase() !== 'content-type');
  const lines = ['import json', 'import os', 'import requests', ''];
  if (note !== undefined) lines.push(`# ${note}`);
  lines.push(text === undefined ? 'body = json.load(open("request.json"))' : `body = json.loads(${pythonString(text)})`);
  lines.push('headers = {');
  for (const [name, value] of headers) lines.push(`    ${pythonString(name)}: ${pythonString(value)},`);
  if (hadCredentials(detail.clientHeaders)) lines.push('    "authorization": f"Bearer {os.environ[\'OPENAI_API_KEY\']}",');
  lines.push('}', `url = ${pythonString(target(detail, proxyUrl))}`);
  if (detail.row.isStream) {
    lines.push(
      'with requests.post(url, json=body, headers=headers, stream=True) as response:',
      '    print(response.status_code)',
      '    for line in response.iter_lines():',
      '        print(line.decode())',
    );
  } else {
    lines.push('response = requests.post(url, json=body, headers=headers)', 'print(response.status_code, response.text)');
  }
  return `${lines.join('\n')}\n`;
}

/** JSON strings are Python strings, except for lone surrogates, which JSON escapes and Python reads alike. */
function pythonString(text: string): string {
  return JSON.stringify(text);
}
