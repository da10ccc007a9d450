/** Builds what is stale, in a process of its own so that the bundler's memory is gone before the engine starts. */
import { join } from 'node:path';
import { ROOT } from './paths.mjs';
import { run } from './run.mjs';
import { buildReason } from './stamp.mjs';

/** Does nothing when `out/` is current. Says so in one line otherwise; the builder's output is shown only when it fails. */
export async function ensureBuilt() {
  const reason = buildReason();
  if (reason === undefined) return;
  console.log(`pdscope: building (${reason})`);
  const { code, output } = await run(process.execPath, [join(ROOT, 'scripts', 'build.mjs')], { isQuiet: true });
  if (code !== 0) {
    process.stderr.write(output);
    console.error('pdscope: the build failed; what it said is above');
    process.exit(code);
  }
}
