import { act, useState, type ReactElement } from 'react';
import { beforeEach, describe, expect, it } from 'vitest';
import { REQUEST_FILTER_FIELDS } from '#shared/filter/request-fields.ts';
import { FilterBar } from '../../../renderer/src/filter/filter-bar.tsx';
import { FakeTransport } from '../fixtures/fake-transport.ts';
import { mount, type Mounted } from '../fixtures/mount.tsx';

interface Control {
  filter: string;
  readonly filters: string[];
  setFilter: (text: string) => void;
}

async function show(): Promise<{ readonly page: Mounted; readonly control: Control; readonly input: HTMLInputElement }> {
  const control: Control = { filter: '', filters: [], setFilter: () => undefined };
  function Harness(): ReactElement {
    const [filter, setFilter] = useState('');
    const [highlight, setHighlight] = useState('');
    Object.assign(control, { filter, setFilter });
    return (
      <FilterBar
        id="test" fields={REQUEST_FILTER_FIELDS} getRows={() => []} filter={filter} highlight={highlight} onHighlight={setHighlight} builtIn={['status:5xx']}
        placeholder="" everything="all requests" onDone={() => undefined}
        onFilter={(text) => {
          control.filters.push(text);
          setFilter(text);
        }}
      />
    );
  }
  const page = await mount(<Harness />, new FakeTransport());
  const input = page.root.querySelector<HTMLInputElement>('input[aria-label="Filter"]');
  if (input === null) throw new Error('no filter input');
  return { page, control, input };
}

function type(input: HTMLInputElement, text: string): Promise<void> {
  return act(async () => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set?.call(input, text);
    input.dispatchEvent(new Event('input', { bubbles: true }));
  });
}

describe('FilterBar', () => {
  beforeEach(() => localStorage.clear());

  it('reads the filter out while it is typed, and puts it into force when the typing stops', async () => {
    const { page, control, input } = await show();
    await using _ = page;
    expect(page.text()).toContain('all requests');
    await type(input, 'role:decode ttft>150');
    expect(page.text()).toContain('decode, first token after 150 ms');
    expect(control.filters).toEqual([]);
    await page.until(() => control.filter === 'role:decode ttft>150');
    expect(control.filters).toEqual(['role:decode ttft>150']);
  });

  it('says what is wrong and where, and keeps the last filter that could be read', async () => {
    const { page, control, input } = await show();
    await using _ = page;
    await type(input, 'state:ok');
    await page.until(() => control.filter === 'state:ok');
    await type(input, 'state:ok stauts:200');
    expect(page.text()).toContain('at 10 “stauts:200” There is no field "stauts". Did you mean status?');
    expect(input.getAttribute('aria-invalid')).toBe('true');
    expect(document.querySelector(`[id="${input.getAttribute('aria-describedby') ?? ''}"]`)?.textContent).toContain('There is no field');
    // A second filter that can be read proves that the time for the first one had passed.
    await type(input, 'state:error');
    await page.until(() => control.filter === 'state:error');
    expect(control.filters).toEqual(['state:ok', 'state:error']);
  });

  it('takes over a filter that was set elsewhere, but not its own echo while typing goes on', async () => {
    const { page, control, input } = await show();
    await using _ = page;
    await type(input, 'state:ok');
    await page.until(() => control.filter === 'state:ok');
    await type(input, 'state:ok re');
    expect(input.value).toBe('state:ok re');
    await act(async () => control.setFilter('retries>0'));
    expect(input.value).toBe('retries>0');
  });
});
