/** A test that runs in Node.js and in a page of Chromium. It fails by an error. */
export interface Case<Environment> {
  readonly name: string;
  run(environment: Environment): Promise<void>;
}

/** Throws unless both are the same: texts, numbers, arrays, bytes and plain objects. Pages have no `node:assert`. */
export function equal(actual: unknown, wanted: unknown): void {
  if (show(actual) !== show(wanted)) throw new Error(`it is\n${show(actual)}\nand should be\n${show(wanted)}`);
}

function show(value: unknown): string {
  return JSON.stringify(value, (_name, member) => {
    if (member === undefined) return "undefined";
    if (member instanceof Uint8Array) return { bytes: Array.from(member) };
    if (typeof member !== "object" || member === null || Array.isArray(member)) return member;
    return Object.fromEntries(Object.entries(member).sort(([one], [other]) => (one < other ? -1 : 1)));
  });
}
