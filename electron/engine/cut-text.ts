/** `text`, at most `length` characters, marked when cut. For what comes from outside and is shown or kept. */
export function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}
