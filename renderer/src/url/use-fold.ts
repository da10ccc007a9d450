import { readUrlList, toggleInUrlList } from './url-list.ts';
import { useUrlState } from './use-url-state.ts';

/**
 * A fold that links carry: `open` names what was opened, `hidden` what stands open by itself and was folded.
 * @param name Unique in its view, without a comma.
 */
export function useFold(name: string, isOpenAtFirst = false): readonly [isOpen: boolean, setOpen: (isOpen: boolean) => void] {
  const [{ open, hidden }, setUrl] = useUrlState();
  const isOpen = isOpenAtFirst ? !readUrlList(hidden).includes(name) : readUrlList(open).includes(name);
  const setOpen = (next: boolean): void => {
    // Browsers also tell of folds that were drawn open.
    if (next === isOpen) return;
    setUrl(isOpenAtFirst ? { hidden: toggleInUrlList(hidden, name, !next) } : { open: toggleInUrlList(open, name, next) });
  };
  return [isOpen, setOpen];
}
