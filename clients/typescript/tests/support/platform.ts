import type { Platform } from "../../src/platform.js";

/** A platform whose waits take no time: the clocks jump. Timeouts of attempts never fire, unless `expire` is called. */
export class FakePlatform implements Platform {
  time = Date.UTC(2026, 10, 24);
  elapsed = 0;
  /** What `random` gives. */
  chance = 0;
  /** The waits between attempts, in milliseconds. */
  readonly waits: number[] = [];
  /** Called at each wait, before the clocks jump. If it returns true the wait does not end by itself. */
  onWait: (ms: number) => boolean = () => false;
  readonly #timeouts = new Set<() => void>();

  now(): number {
    return this.time;
  }

  monotonic(): number {
    return this.elapsed;
  }

  random(): number {
    return this.chance;
  }

  wait(ms: number, then: () => void): () => void {
    this.waits.push(ms);
    if (this.onWait(ms)) return () => {};
    this.advance(ms);
    queueMicrotask(then);
    return () => {};
  }

  timeout(_ms: number, then: () => void): () => void {
    this.#timeouts.add(then);
    return () => this.#timeouts.delete(then);
  }

  advance(ms: number): void {
    this.time += ms;
    this.elapsed += ms;
  }

  /** Fires the timeouts of the attempts that are under way. */
  expire(): void {
    for (const then of [...this.#timeouts]) then();
  }

  /** How many timers of attempts are set. */
  get timeouts(): number {
    return this.#timeouts.size;
  }
}
