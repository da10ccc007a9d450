#!/usr/bin/env node
/** Fails when the page's initial JavaScript outgrows its limit. Prints what it is made of either way. */
import { join } from 'node:path';
import { INITIAL_JS_LIMIT, initialScripts } from './lib/bundle-size.mjs';
import { OUT } from './lib/paths.mjs';

const scripts = initialScripts(join(OUT, 'renderer'));
const total = scripts.reduce((sum, { gzipBytes }) => sum + gzipBytes, 0);
const kb = (bytes) => `${(bytes / 1024).toFixed(1)} KB`;
for (const { file, gzipBytes } of scripts) console.log(`  ${kb(gzipBytes).padStart(9)}  ${file}`);
console.log(`initial JavaScript: ${kb(total)} gzip, limit ${kb(INITIAL_JS_LIMIT)}`);
process.exit(total > INITIAL_JS_LIMIT ? 1 : 0);
