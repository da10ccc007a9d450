import { useLayoutEffect, useState, type RefObject } from 'react';

/** Inner size of an element, px, kept current. 0 until it is laid out. */
export function useElementSize(ref: RefObject<HTMLElement | null>): { readonly width: number; readonly height: number } {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return undefined;
    const read = (): void => setSize((before) => {
      const { clientWidth: width, clientHeight: height } = element;
      return before.width === width && before.height === height ? before : { width, height };
    });
    read();
    const observer = new ResizeObserver(read);
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref]);
  return size;
}
