// What Node.js loads in place of ../index.js: Node.js 18 has no `globalThis.crypto`.
import { webcrypto } from "node:crypto";
import { useRandomBytes } from "../key.js";

useRandomBytes(webcrypto as Crypto);

export * from "../index.js";
