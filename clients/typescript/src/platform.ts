/** The clocks and the random source of the client. Tests have their own. */
export interface Platform {
  /** The time of day in milliseconds since 1970. */
  now(): number;
  /** Milliseconds of a clock that nobody sets. */
  monotonic(): number;
  /** A random number from 0 to below 1. It need not be secure. */
  random(): number;
  /** Calls `then` after so many milliseconds, unless the returned function is called before. For the wait between attempts. */
  wait(ms: number, then: () => void): () => void;
  /** The same for the timeout of an attempt. */
  timeout(ms: number, then: () => void): () => void;
}

function timer(ms: number, then: () => void): () => void {
  const handle = setTimeout(then, ms);
  return () => clearTimeout(handle);
}

export const systemPlatform: Platform = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  random: () => Math.random(),
  wait: timer,
  timeout: timer,
};

/** True in pages and workers of browsers, where CORS has to allow request headers. React Native has `window`, but no CORS. */
export function isBrowser(): boolean {
  const { document, WorkerGlobalScope } = globalThis as { document?: unknown; WorkerGlobalScope?: unknown };
  return document !== undefined || WorkerGlobalScope !== undefined;
}
