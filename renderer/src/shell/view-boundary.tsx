import { Button } from '@mantine/core';
import { Component, type ReactElement, type ReactNode } from 'react';
import { errorMessage } from '#shared/errors.ts';
import classes from './shell.module.css';

interface BoundaryProps {
  /** What is shown; another view starts without the last one's error. */
  readonly view: string;
  readonly children: ReactNode;
}

interface BoundaryState {
  readonly view: string | undefined;
  readonly error: unknown;
}

/**
 * A view that breaks says so and takes nothing else with it. It stays mounted from view to view (do not key it): what a
 * view throws while it is taken away reaches only a boundary that remains.
 */
export class ViewBoundary extends Component<BoundaryProps, BoundaryState> {
  override readonly state: BoundaryState = { view: undefined, error: undefined };

  static getDerivedStateFromError(error: unknown): Partial<BoundaryState> {
    return { error };
  }

  static getDerivedStateFromProps({ view }: BoundaryProps, state: BoundaryState): BoundaryState | null {
    return view === state.view ? null : { view, error: undefined };
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
