/**
 * Mantine, tuned into an instrument: small sizes, square corners, no shadows, and its own colour variables pointed at
 * ours, so that one set of values (tokens.css) rules both.
 */
import { createTheme, type CSSVariablesResolver, type MantineColorsTuple } from '@mantine/core';

const ACCENT: MantineColorsTuple = [
  '#e1ecfa', '#c6dcf8', '#a5c9f6', '#8bbcff', '#6aa9ff', '#4a93f2', '#2f7fe2', '#1f6fd6', '#185bb3', '#124a93',
];

const NO_SHADOW = { xs: 'none', sm: 'none', md: 'none', lg: 'none', xl: 'none' };

export const theme = createTheme({
  fontFamily: 'var(--pd-sans)',
  fontFamilyMonospace: 'var(--pd-mono)',
  fontSizes: { xs: '11.5px', sm: '12.5px', md: '13px', lg: '14px', xl: '16px' },
  lineHeights: { xs: '1.35', sm: '1.4', md: '1.4', lg: '1.4', xl: '1.4' },
  colors: { accent: ACCENT },
  primaryColor: 'accent',
  primaryShade: { light: 7, dark: 4 },
  autoContrast: true,
  defaultRadius: 2,
  shadows: NO_SHADOW,
  respectReducedMotion: true,
  components: {
    Button: { defaultProps: { size: 'compact-sm', variant: 'default' } },
    ActionIcon: { defaultProps: { size: 'sm', variant: 'subtle', color: 'gray' } },
    TextInput: { defaultProps: { size: 'xs' } },
    NumberInput: { defaultProps: { size: 'xs' } },
    NativeSelect: { defaultProps: { size: 'xs' } },
    Tabs: { defaultProps: { variant: 'pills' } },
    Checkbox: { defaultProps: { size: 'xs' } },
    SegmentedControl: { defaultProps: { size: 'xs', radius: 2, withItemsBorders: false, transitionDuration: 0 } },
    Tooltip: { defaultProps: { openDelay: 250, transitionProps: { duration: 0 }, withArrow: false, multiline: true, maw: 420 } },
    Menu: { defaultProps: { withInitialFocusPlaceholder: false, transitionProps: { duration: 0 }, shadow: 'none', position: 'bottom-end', offset: 4 } },
    Popover: { defaultProps: { transitionProps: { duration: 0 }, shadow: 'none' } },
    Notification: { defaultProps: { closeButtonProps: { 'aria-label': 'Dismiss' } } },
    // The page itself never scrolls; the kit's scroll lock would inject a style tag that the page's CSP refuses.
    Modal: { defaultProps: { lockScroll: false, transitionProps: { duration: 0 }, shadow: 'none', overlayProps: { backgroundOpacity: 0.5 } } },
  },
});

const surfaces: Record<string, string> = {
  '--mantine-color-body': 'var(--pd-bg)',
  '--mantine-color-text': 'var(--pd-text)',
  '--mantine-color-dimmed': 'var(--pd-text-dim)',
  '--mantine-color-placeholder': 'var(--pd-text-faint)',
  '--mantine-color-error': 'var(--pd-error)',
  '--mantine-color-anchor': 'var(--pd-accent-text)',
  '--mantine-color-default': 'transparent',
  '--mantine-color-default-hover': 'var(--pd-bg-hover)',
  '--mantine-color-default-color': 'var(--pd-text)',
  '--mantine-color-default-border': 'var(--pd-line-strong)',
  '--mantine-color-disabled': 'var(--pd-track)',
  '--mantine-color-disabled-color': 'var(--pd-text-faint)',
  '--mantine-color-disabled-border': 'var(--pd-line)',
};

/** Points Mantine's surfaces at tokens.css in both themes. */
export const cssVariables: CSSVariablesResolver = () => ({ variables: {}, light: surfaces, dark: surfaces });
