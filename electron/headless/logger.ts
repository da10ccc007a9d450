/** The log: pino on stderr, because stdout is for what a person or a script reads. */
import { isatty } from 'node:tty';
import { pino, type LoggerOptions } from 'pino';
import type { Logger } from '#engine/log.ts';
import type { ServeSettings } from './config/resolve-serve.ts';

/** Fields that may hold a secret if a caller logs a whole header object by mistake. */
const REDACTED = ['authorization', 'cookie', '["x-api-key"]', '*.authorization', '*.cookie', '*["x-api-key"]'];

/** Default format: pretty on a terminal, else JSON lines. */
export async function createLogger({ level, format }: ServeSettings['log']): Promise<Logger> {
  const isPretty = (format ?? (isatty(2) ? 'pretty' : 'json')) === 'pretty';
  const options: LoggerOptions = { level, base: null, redact: { paths: REDACTED, censor: '[redacted]' } };
  if (!isPretty) {
    const json: Logger = pino({ ...options, timestamp: pino.stdTimeFunctions.isoTime }, pino.destination({ fd: 2, sync: true }));
    return json;
  }
  const { PinoPretty } = await import('pino-pretty');
  // In this process: pino's own way is a worker thread, which would outlive a second Ctrl+C and double the start-up.
  const stream = PinoPretty({ destination: 2, sync: true, colorize: isatty(2), translateTime: 'SYS:HH:MM:ss.l' });
  const pretty: Logger = pino(options, stream);
  return pretty;
}
