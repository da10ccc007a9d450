import { Button } from '@mantine/core';
import { Component, type ReactElement, type ReactNode } from 'react';
import { errorMessage } from '#shared/errors.ts';
import classes from './shell.module.css';

interface BoundaryState {
  readonly error: unknown;
}

/** A view that breaks says so and takes nothing else with it. */
export class ViewBoundary extends Component<{ readonly children: ReactNode }, BoundaryState> {
  override readonly state: BoundaryState = { error: undefined };

  static getDerivedStateFromError(error: unknown): BoundaryState {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return this.#renderError(error);
  }

  #renderError(error: unknown): ReactElement {
    return (
      <div className={classes.crash} role="alert">
        <p>✕ This view broke: {errorMessage(error)}</p>
        {error instanceof Error && <pre>{error.stack}</pre>}
        <Button onClick={() => this.setState({ error: undefined })}>Show it again</Button>
      </div>
    );
  }
}
