/** Several names in one value of the URL: `d0,d1`. Names with a comma cannot be told apart and are left out. */

export function readUrlList(text: string): readonly string[] {
  return [...new Set(text.split(',').filter((name) => name !== ''))];
}

export function writeUrlList(names: Iterable<string>): string {
  return [...names].filter((name) => name !== '' && !name.includes(',')).join(',');
}

/** The list with `name` in it, or without. */
export function toggleInUrlList(text: string, name: string, isIn = !readUrlList(text).includes(name)): string {
  const others = readUrlList(text).filter((one) => one !== name);
  return writeUrlList(isIn ? [...others, name] : others);
}
