/**
 * Imported before everything else: zod tries out `new Function` when a schema is made, unless told not to, and the
 * page's content security policy reports the attempt.
 */
import { config } from 'zod';

config({ jitless: true });
