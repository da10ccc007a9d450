/** First bytes of packed values (value-packer.ts writes, value-reader.ts reads). Below 0x80: the whole number itself. */
export const TAG = {
  undefined: 0x80,
  null: 0x81,
  false: 0x82,
  true: 0x83,
  /** A whole number from 0 on, in groups of seven bits, lowest first. */
  whole: 0x84,
  /** The same, negated. */
  negative: 0x85,
  /** IEEE 754, 8 bytes, little-endian. */
  double: 0x86,
  /** Length and bytes, one per character. */
  latin1: 0x87,
  /** Length in bytes, UTF-16. */
  utf16: 0x88,
  /** Number in the table of shared texts. */
  shared: 0x89,
  /** Where the same text or double begins in this value. */
  again: 0x8a,
  /** Count and items. */
  list: 0x8b,
  /** Count and differences of whole numbers. */
  wholes: 0x8c,
  /** Count and differences of whole thousandths. */
  thousandths: 0x8d,
  /** Names of the fields as one text, and their values. */
  object: 0x8e,
  /** Count, and pairs of name and value. */
  pairs: 0x8f,
} as const;

/** Thousandths are exact as long as they come back when divided. */
export const THOUSAND = 1000;
