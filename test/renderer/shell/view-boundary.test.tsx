import { useEffect, useState, type ReactElement } from 'react';
import { afterEach, expect, it, vi } from 'vitest';
import { ViewBoundary } from '../../../renderer/src/shell/view-boundary.tsx';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { mount } from '../fixtures/mount.tsx';

function BreaksWhenTakenAway(): ReactElement {
  useEffect(
    () => () => {
      throw new Error('clean-up failed');
    },
    [],
  );
  return <p>first view</p>;
}

function Frame(): ReactElement {
  const [view, setView] = useState('first');
  return (
    <div>
      <button type="button" onClick={() => setView('second')}>
        next view
      </button>
      <ViewBoundary view={view}>{view === 'first' ? <BreaksWhenTakenAway key={view} /> : <p key={view}>second view</p>}</ViewBoundary>
    </div>
  );
}

afterEach(() => vi.restoreAllMocks());

it('keeps the page when a view throws while it is taken away, says so, and shows the next one on request', async () => {
  // React writes what a boundary caught to the console.
  vi.spyOn(console, 'error').mockImplementation(() => undefined);
  await using page = await mount(<Frame />, new FakeTransport());
  await page.click('button', 'next view');
  expect(page.text()).toContain('This view broke: clean-up failed');
  expect(page.text()).toContain('next view');
  await page.click('button', 'Show it again');
  expect(page.text()).toContain('second view');
});
