/** Compressed twins of the page's files, so that a page opened over `ssh -L` loads fast and the host spends no time on it. */
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

const TEXT = new Set(['.js', '.css', '.svg', '.json']);
/** Below this a compressed file saves no packet. */
const MIN_BYTES = 1024;

/** Writes `.br` and `.gz` beside each text file under `dir`. @param {string} dir */
export async function compressAssets(dir) {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && TEXT.has(extname(entry.name)));
  await Promise.all(
    files.map(async (entry) => {
      const path = join(entry.parentPath, entry.name);
      const content = await readFile(path);
      if (content.length < MIN_BYTES) return;
      const br = await promisify(brotliCompress)(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } });
      await Promise.all([writeFile(`${path}.br`, br), writeFile(`${path}.gz`, await promisify(gzip)(content, { level: 9 }))]);
    }),
  );
}
