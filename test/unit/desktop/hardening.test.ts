import type { Session, WebContents } from 'electron';
import { describe, expect, it, vi } from 'vitest';
import { hardenContents, hardenSession, isExternalLink } from '../../../electron/main/hardening.ts';
import { createElectronDouble, WebContentsDouble } from './electron-double.ts';

const trusted = new Set(['app://pdscope']);

function hardened() {
  const contents = new WebContentsDouble(1);
  const shell = { openExternal: vi.fn(() => Promise.resolve()) };
  hardenContents(contents as unknown as WebContents, trusted, shell);
  /** Whether the page was kept from what it tried. */
  const isPrevented = (event: string, details: object = {}): boolean => {
    const preventDefault = vi.fn();
    contents.emit(event, { ...details, preventDefault });
    return preventDefault.mock.calls.length > 0;
  };
  return { contents, shell, isPrevented };
}

describe('hardenContents', () => {
  it('keeps the page where it is', () => {
    const { isPrevented } = hardened();
    expect(isPrevented('will-navigate', { url: 'https://example.com/' })).toBe(true);
    expect(isPrevented('will-navigate', { url: 'file:///etc/passwd' })).toBe(true);
    expect(isPrevented('will-navigate', { url: 'app://other/' })).toBe(true);
    expect(isPrevented('will-navigate', { url: 'app://pdscope/index.html' })).toBe(false);
  });

  it('allows no redirect, no frame and no webview', () => {
    const { isPrevented } = hardened();
    expect(isPrevented('will-redirect', { url: 'app://pdscope/' })).toBe(true);
    expect(isPrevented('will-frame-navigate', { isMainFrame: false, url: 'app://pdscope/' })).toBe(true);
    expect(isPrevented('will-frame-navigate', { isMainFrame: true, url: 'app://pdscope/' })).toBe(false);
    expect(isPrevented('will-attach-webview')).toBe(true);
  });

  it('opens no window; a web link goes to the browser', () => {
    const { contents, shell } = hardened();
    expect(contents.openHandler?.({ url: 'https://docs.vllm.ai/' })).toEqual({ action: 'deny' });
    expect(shell.openExternal.mock.calls).toEqual([['https://docs.vllm.ai/']]);
    expect(contents.openHandler?.({ url: 'file:///bin/sh' })).toEqual({ action: 'deny' });
    expect(shell.openExternal).toHaveBeenCalledTimes(1);
  });

  it('survives a system without a browser', async () => {
    const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    const { contents, shell } = hardened();
    shell.openExternal.mockRejectedValueOnce(new Error('no handler'));
    contents.openHandler?.({ url: 'https://docs.vllm.ai/' });
    await vi.waitFor(() => expect(write).toHaveBeenCalledWith(expect.stringContaining('no handler')));
    write.mockRestore();
  });
});

describe('isExternalLink', () => {
  it.each([
    ['https://docs.vllm.ai/en/latest/', true],
    ['http://example.com/', false],
    ['https://user:secret@example.com/', false],
    ['file:///etc/passwd', false],
    ['smb://host/share', false],
    ['javascript:alert(1)', false],
    ['ms-msdt:/id', false],
    ['not an address', false],
  ])('%s: %s', (address, expected) => {
    expect(isExternalLink(address)).toBe(expected);
  });
});

describe('hardenSession', () => {
  function handlers() {
    const { double, sessionHandlers } = createElectronDouble();
    hardenSession(double.session.defaultSession as unknown as Session, trusted);
    const asks = (permission: string, requestingUrl: string): boolean => {
      const answer = vi.fn();
      (sessionHandlers.get('request') as (...args: unknown[]) => void)(undefined, permission, answer, { requestingUrl });
      return answer.mock.calls[0]?.[0] as boolean;
    };
    const checks = (permission: string, origin: string): boolean =>
      (sessionHandlers.get('check') as (...args: unknown[]) => boolean)(undefined, permission, origin, {});
    return { asks, checks, device: sessionHandlers.get('device') as () => boolean };
  }

  it.each(['media', 'geolocation', 'notifications', 'clipboard-read', 'openExternal', 'fileSystem', 'display-capture', 'midi', 'pointerLock', 'hid', 'serial', 'usb', 'fullscreen'])(
    'denies %s, even to the app',
    (permission) => {
      const { asks, checks } = handlers();
      expect(asks(permission, 'app://pdscope/index.html')).toBe(false);
      expect(checks(permission, 'app://pdscope')).toBe(false);
    },
  );

  it('lets the app, and nobody else, write to the clipboard', () => {
    const { asks, checks } = handlers();
    expect(asks('clipboard-sanitized-write', 'app://pdscope/index.html')).toBe(true);
    expect(checks('clipboard-sanitized-write', 'app://pdscope/')).toBe(true);
    expect(asks('clipboard-sanitized-write', 'https://example.com/')).toBe(false);
    expect(checks('clipboard-sanitized-write', '')).toBe(false);
  });

  it('hands out no device', () => {
    expect(handlers().device()).toBe(false);
  });
});
