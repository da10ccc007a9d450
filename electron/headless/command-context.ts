/** What commands of the command line share. */
export interface ProgramOutput {
  /** What was asked for. */
  readonly out: (text: string) => void;
  /** Everything else. */
  readonly err: (text: string) => void;
}

export interface CommandContext {
  readonly output: ProgramOutput;
  /** Called by a command that goes on after its action has returned, and then ends the process itself. */
  readonly keepRunning: () => void;
}
