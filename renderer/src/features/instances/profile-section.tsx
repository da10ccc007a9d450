import { Button } from '@mantine/core';
import { useState, type ReactElement } from 'react';
import type { InstanceId } from '#shared/ids.ts';
import type { InstanceAnswer } from '#shared/operations.ts';
import { useOperation } from '../../transport/use-operation.ts';
import { Message } from '../../ui/message.tsx';
import { SectionHead } from '../../ui/section-head.tsx';
import { StateMark, type Tone } from '../../ui/state-mark.tsx';
import pane from '../../ui/detail-pane.module.css';
import classes from './instances.module.css';

const TONE: Readonly<Record<InstanceAnswer['outcome'], Tone>> = { ok: 'ok', unsupported: 'unknown', failed: 'error' };

/** Starts and stops the engines' own profiler, and shows what each of them said. Without `instance`: on all. */
export function ProfileSection({ instance }: { readonly instance?: InstanceId }): ReactElement {
  const start = useOperation('profile.start');
  const stop = useOperation('profile.stop');
  const [last, setLast] = useState<'start' | 'stop'>('start');
  const run = (action: 'start' | 'stop'): void => {
    setLast(action);
    const input = instance === undefined ? {} : { ids: [instance] };
    void (action === 'start' ? start.run(input) : stop.run(input));
  };
  const { value, error } = last === 'start' ? start : stop;
  const isRunning = start.isRunning || stop.isRunning;
  return (
    <>
      <SectionHead title={instance === undefined ? 'Profiler of all instances' : 'Profiler'}>
        <span className={classes.note}>writes traces on the engine's machine; slows it while it runs</span>
      </SectionHead>
      <div className={pane.block}>
        <div className={classes.buttons}>
          <Button disabled={isRunning} loading={start.isRunning} onClick={() => run('start')}>
            {instance === undefined ? 'Start on all' : 'Start profile'}
          </Button>
          <Button disabled={isRunning} loading={stop.isRunning} onClick={() => run('stop')}>
            {instance === undefined ? 'Stop on all' : 'Stop profile'}
          </Button>
        </div>
        {error !== undefined && <Message tone="error">{error.message}</Message>}
        {value !== undefined && <ProfileReport answers={value.answers} action={last} />}
      </div>
    </>
  );
}

function ProfileReport({ answers, action }: { readonly answers: readonly InstanceAnswer[]; readonly action: 'start' | 'stop' }): ReactElement {
  if (answers.length === 0) return <Message tone="plain">There is no instance to ask.</Message>;
  return (
    <ul className={classes.notices} aria-label={`Answers to ${action} profile`}>
      {answers.map((answer) => (
        <li key={answer.instance} className={classes.notice}>
          <strong>{answer.name}</strong>
          <span>
            <StateMark tone={TONE[answer.outcome]}>{answer.outcome === 'ok' ? (action === 'start' ? 'profiling' : 'stopped') : answer.outcome}</StateMark>
            {answer.message !== undefined && <span className={classes.note}> {answer.message}</span>}
            {answer.message === undefined && answer.outcome === 'unsupported' && <span className={classes.note}> started without a profiler (--profiler-config)</span>}
          </span>
        </li>
      ))}
    </ul>
  );
}
