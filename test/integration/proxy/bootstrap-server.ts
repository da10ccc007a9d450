/** A Mooncake bootstrap server that tells what a test wants it to tell, and counts the questions. */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** `{"<rank>": engine id}`, one worker each; or whole entries as they go over the wire. */
export type BootstrapTable = Readonly<Record<string, string | { readonly engine_id: string; readonly worker_addr: object }>>;

export interface ScriptedBootstrap extends AsyncDisposable {
  readonly port: number;
  /** Answers of `/query`; a function answers by itself. */
  table: BootstrapTable | ((res: ServerResponse) => void);
  readonly questions: number;
  close(): Promise<void>;
}

export async function startBootstrap(table: ScriptedBootstrap['table'], port = 0): Promise<ScriptedBootstrap> {
  let questions = 0;
  const server = createServer((req, res) => {
    questions += 1;
    if (typeof bootstrap.table === 'function') {
      bootstrap.table(res);
      return;
    }
    const isQuery = req.method === 'GET' && req.url === '/query';
    const entries = Object.entries(bootstrap.table).map(([rank, entry]) => [
      rank,
      typeof entry === 'string' ? { engine_id: entry, worker_addr: { '0': { '0': `tcp://127.0.0.1:${17_000 + Number(rank)}` } } } : entry,
    ]);
    res.writeHead(isQuery ? 200 : 404, { 'content-type': 'application/json' });
    res.end(JSON.stringify(Object.fromEntries(entries)));
  });
  await new Promise<void>((resolve) => {
    server.listen(port, '127.0.0.1', resolve);
  });
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    if (!server.listening) return;
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
  };
  const bootstrap: ScriptedBootstrap = {
    port: (server.address() as AddressInfo).port,
    table,
    get questions() {
      return questions;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
  return bootstrap;
}
