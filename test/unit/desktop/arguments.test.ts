import { describe, expect, it } from 'vitest';
import { serveArguments } from '../../../electron/main/arguments.ts';

describe('serveArguments', () => {
  it('starts the demo without arguments', () => {
    expect(serveArguments(['/opt/pdscope/pdscope'], true)).toEqual(['--demo']);
    expect(serveArguments(['/node_modules/electron/dist/electron', '/app'], false)).toEqual(['--demo']);
    expect(serveArguments(['/electron', '/app', '--', 'serve'], false)).toEqual(['--demo']);
  });

  it('takes what comes after the launcher\'s separator, and no switch before it', () => {
    const argv = ['/electron', '--inspect=0', '/app', '--user-data-dir=/tmp/x', '--', 'serve', '--prefill', '10.0.0.1:8100'];
    expect(serveArguments(argv, false)).toEqual(['--prefill', '10.0.0.1:8100']);
  });

  it('takes the arguments of a packaged app as they are', () => {
    expect(serveArguments(['/opt/pdscope/pdscope', '--decode', '10.0.0.2:8200'], true)).toEqual(['--decode', '10.0.0.2:8200']);
    expect(serveArguments(['/opt/pdscope/pdscope', 'serve', '--demo', '4P4D'], true)).toEqual(['--demo', '4P4D']);
  });
});
