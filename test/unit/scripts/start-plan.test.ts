import { describe, expect, it } from 'vitest';
import { planStart } from '../../../scripts/lib/start-plan.mjs';

describe('planStart', () => {
  it('starts the demo, in a window where there can be one, without arguments', () => {
    expect(planStart([])).toEqual({ args: ['serve', '--demo'], wantsWindow: true });
  });

  it('takes bare flags as those of serve', () => {
    expect(planStart(['--prefill', '10.0.0.1:8100'])).toEqual({ args: ['serve', '--prefill', '10.0.0.1:8100'], wantsWindow: true });
  });

  it('passes serve and its flags through', () => {
    const argv = ['serve', '--prefill', '10.0.0.1:8100', '--decode', '10.0.0.2:8200'];
    expect(planStart(argv)).toEqual({ args: argv, wantsWindow: true });
  });

  it('keeps --headless to itself', () => {
    expect(planStart(['--headless'])).toEqual({ args: ['serve', '--demo'], wantsWindow: false });
    expect(planStart(['serve', '--demo', '--headless'])).toEqual({ args: ['serve', '--demo'], wantsWindow: false });
  });

  it.each([['sim', '--role', 'prefill'], ['events', 'tcp://h:5557', '--json'], ['--help'], ['serve', '--help'], ['--version'], ['nonsense']])(
    'sends %s to the terminal',
    (...argv) => {
      expect(planStart(argv)).toEqual({ args: argv, wantsWindow: false });
    },
  );

  it('asks serve for help about its flags', () => {
    expect(planStart(['--demo', '--help'])).toEqual({ args: ['serve', '--demo', '--help'], wantsWindow: false });
  });
});
