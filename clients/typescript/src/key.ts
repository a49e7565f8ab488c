/** A source of random bytes, such as `globalThis.crypto`. */
export type RandomBytes = Partial<Pick<Crypto, "randomUUID" | "getRandomValues">>;

let source: RandomBytes | undefined;

/** Sets the source for keys where `globalThis.crypto` is missing: Node.js 18. */
export function useRandomBytes(bytes: RandomBytes): void {
  source = bytes;
}

/** A new key: a UUID v4. Throws a `TypeError` where the platform has no secure random numbers. */
export function newKey(bytes: RandomBytes | undefined = globalThis.crypto ?? source): string {
  // Browsers have `randomUUID` only in secure contexts.
  if (bytes?.randomUUID) return bytes.randomUUID();
  if (bytes?.getRandomValues) {
    const random = bytes.getRandomValues(new Uint8Array(16));
    const hex = Array.from(random, (byte, at) =>
      (at === 6 ? (byte & 0x0f) | 0x40 : at === 8 ? (byte & 0x3f) | 0x80 : byte).toString(16).padStart(2, "0"),
    ).join("");
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }
  throw new TypeError(
    "this platform has neither crypto.randomUUID nor crypto.getRandomValues, which make keys. In React Native import " +
      "react-native-get-random-values before the client, or set the header Idempotency-Key yourself.",
  );
}
