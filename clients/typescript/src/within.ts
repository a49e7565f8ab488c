import type { Platform } from "./platform.js";

/** The caller's signal ended the work. */
export class CallerAborted extends Error {
  readonly reason: unknown;

  constructor(reason: unknown) {
    super("the caller aborted");
    this.reason = reason;
  }
}

/** An attempt took longer than its timeout. */
export class TimedOut extends Error {
  constructor(ms: number) {
    super(`no whole answer within ${ms} ms`);
    this.name = "TimedOut";
  }
}

/**
 * Runs the work with a signal that is aborted after `ms` milliseconds, or by the caller's signal. Rejects at once with `TimedOut` or
 * `CallerAborted` then, even if the work does not look at its signal.
 */
export function within<T>(
  ms: number,
  caller: AbortSignal | undefined,
  platform: Platform,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const controller = new AbortController();
    const settle = (then: () => void) => {
      cancel();
      caller?.removeEventListener("abort", onAbort);
      then();
    };
    const stop = (error: Error) => {
      settle(() => reject(error));
      controller.abort(error);
    };
    const onAbort = () => stop(new CallerAborted(caller?.reason));
    const cancel = platform.timeout(ms, () => stop(new TimedOut(ms)));
    if (caller?.aborted) {
      onAbort();
      return;
    }
    caller?.addEventListener("abort", onAbort);
    work(controller.signal).then(
      (value) => settle(() => resolve(value)),
      (error) => settle(() => reject(error)),
    );
  });
}

/** Resolves with the promise, or rejects with `CallerAborted` as soon as the caller's signal is aborted. */
export function unlessAborted<T>(promise: Promise<T>, caller: AbortSignal | undefined): Promise<T> {
  if (!caller) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(new CallerAborted(caller.reason));
    if (caller.aborted) onAbort();
    caller.addEventListener("abort", onAbort);
    promise.then(resolve, reject).finally(() => caller.removeEventListener("abort", onAbort));
  });
}

/** Waits. Rejects with `CallerAborted` as soon as the caller's signal is aborted. */
export async function pause(ms: number, caller: AbortSignal | undefined, platform: Platform): Promise<void> {
  let cancel = () => {};
  const waited = new Promise<void>((resolve) => {
    cancel = platform.wait(ms, resolve);
  });
  try {
    await unlessAborted(waited, caller);
  } finally {
    cancel();
  }
}
