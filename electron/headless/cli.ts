#!/usr/bin/env -S node --max-old-space-size=1024 --initial-old-space-size=256 --no-memory-reducer
/** Entry of `pdscope`. All there is to it is in program.ts, so that tests can run it without a process. */
import { runProgram } from './program.ts';

// Whoever reads may leave early (`pdscope --help | head`): that is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

const code = await runProgram(process.argv.slice(2));
// A command that goes on running (serve, sim, events) answers undefined and ends the process itself.
if (code !== undefined) process.exitCode = code;
