/**
 * Lists that stream in, as tests use them. Which row is newest is chance: a test filters for the rows it needs, and stops
 * the list before it points at one, since a row that moves with each arrival may never keep still on a slow machine.
 */
import type { Locator, Page } from '@playwright/test';
import { expect } from './fixtures.ts';

const NAMES = { requests: 'Requests, newest first', 'kv-events': 'KV-cache events, newest first' } as const;

/** A request that ended well, over the connector of the demo, with both legs and a stream: what every tab has to show. */
export const WHOLE_REQUEST = 'state:ok stream:yes connector:nixl leg:prefill leg:decode';

export class LiveList {
  readonly #page: Page;
  readonly grid: Locator;
  /** Without the header, newest first. */
  readonly rows: Locator;
  readonly selected: Locator;
  /** Shown while the list is paused; says how much arrived. */
  readonly resumeButton: Locator;
  readonly filterField: Locator;

  constructor(page: Page, name: keyof typeof NAMES) {
    this.#page = page;
    this.grid = page.getByRole('grid', { name: NAMES[name] });
    this.rows = this.grid.locator('[data-row-id]');
    this.selected = this.grid.locator('[aria-selected="true"]');
    this.resumeButton = page.getByRole('button', { name: /^resume/ });
    this.filterField = page.getByLabel('Filter', { exact: true });
  }

  /** Filters as a person does. Resolves when the rows are the engine's answer to this filter, not to the one before. */
  async filterBy(filter: string): Promise<void> {
    await this.filterField.fill(filter);
    await this.#page.keyboard.press('Enter');
    await expectInAddress(this.#page, 'q', filter);
    await expect(this.grid).toHaveAttribute('aria-busy', 'false');
  }

  async pause(): Promise<void> {
    await this.#page.getByRole('button', { name: 'pause', exact: true }).click();
    await expect(this.resumeButton).toBeVisible();
  }

  async resume(): Promise<void> {
    await this.resumeButton.click();
    await expect(this.resumeButton).toHaveCount(0);
  }

  /** Selects the row at a place with the mouse, and lets rows arrive again. Answers its id. */
  async select(place = 0): Promise<string> {
    await expect(this.rows.nth(place)).toBeVisible();
    await this.pause();
    await this.rows.nth(place).click();
    const id = await this.selectedId();
    await expectInAddress(this.#page, 'sel', id);
    await this.resume();
    return id;
  }

  async selectedId(): Promise<string> {
    return (await this.selected.getAttribute('data-row-id')) ?? '';
  }
}

/** Waits until the page's address says so; Playwright hears of changes a moment after the page made them. */
export async function expectInAddress(page: Page, key: 'q' | 'sel', value: string): Promise<void> {
  await expect.poll(() => new URLSearchParams(new URL(page.url()).hash.replace(/^[^?]*\??/, '')).get(key) ?? '').toBe(value);
}
