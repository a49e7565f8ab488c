import { createHash, randomUUID } from "node:crypto";
import { link, mkdir, open, readdir, readFile, rm, stat, unlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { DamagedRecord } from "../errors.js";
import { decodeRecord, encodeRecord, nameOf, type PendingRequest } from "../record.js";
import { collect, inOrder, type Store, type StoreContents } from "../store.js";

/** A temporary file that is older was left by a process that ended while it wrote. Its request was never sent. */
const LEFT_BEHIND_AFTER = 60 * 60 * 1000;

/**
 * Keeps each request in a file of a folder, for Node.js. A request is written to a temporary file, which is synced to the disk and then gets its
 * name by a hard link, so there are no half-written ones, and of two processes only one keeps a request under a key. Several processes may share
 * the folder, if it is on a local disk.
 */
export class FileStore implements Store {
  readonly #folder: string;

  /** `folder` is made if it is missing, for this user only, because bodies of requests may be confidential. */
  constructor(folder: string) {
    // A later change of the working directory must not move the store.
    this.#folder = resolve(folder);
  }

  async put(request: PendingRequest): Promise<PendingRequest> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const temporary = join(this.#folder, `${randomUUID()}.tmp`);
    try {
      const file = await open(temporary, "wx", 0o600);
      try {
        await file.writeFile(encodeRecord(request));
        await file.sync();
      } finally {
        await file.close();
      }
      // Another process may have kept a request under the key, and removed it again before it was read.
      for (;;) {
        const isNew = await this.#name(temporary, this.#path(request.owner, request.key));
        const kept = isNew ? request : await this.get(request.owner, request.key);
        if (kept) return kept;
      }
    } finally {
      await rm(temporary, { force: true });
    }
  }

  /** Gives the file its name, and makes the name durable. Resolves with false if another file has the name; then that one is durable. */
  #name(temporary: string, path: string): Promise<boolean> {
    // The folder is open before the name is there: without a free file descriptor nothing is kept.
    return this.#withFolder(async (sync) => {
      try {
        await link(temporary, path);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
        await sync();
        return false;
      }
      try {
        await sync();
      } catch (error) {
        await unlink(path);
        throw error;
      }
      return true;
    });
  }

  async get(owner: string, key: string): Promise<PendingRequest | undefined> {
    const path = this.#path(owner, key);
    const bytes = await readIfThere(path);
    if (bytes === undefined) return undefined;
    try {
      return this.#read(path, bytes);
    } catch (error) {
      throw new DamagedRecord(path, owner, key, (error as Error).message);
    }
  }

  async list(): Promise<StoreContents> {
    const contents: StoreContents = { requests: [], damaged: [] };
    for (const name of await this.#names()) {
      const path = join(this.#folder, name);
      if (name.endsWith(".tmp")) await removeIfLeftBehind(path);
      if (!name.endsWith(".json")) continue;
      try {
        const bytes = await readIfThere(path);
        if (bytes !== undefined) collect(contents, path, null, null, () => this.#read(path, bytes));
      } catch (error) {
        contents.damaged.push(new DamagedRecord(path, null, null, (error as Error).message));
      }
    }
    return inOrder(contents);
  }

  async remove(owner: string, key: string): Promise<void> {
    try {
      await unlink(this.#path(owner, key));
    } catch (error) {
      if (isMissing(error)) return;
      throw error;
    }
    await this.#withFolder((sync) => sync());
  }

  /** The name is a hash, because keys have other characters than file names, and some file systems do not tell `a` from `A`. */
  #path(owner: string, key: string): string {
    return join(this.#folder, `${createHash("sha256").update(nameOf(owner, key)).digest("hex")}.json`);
  }

  #read(path: string, bytes: Uint8Array): PendingRequest {
    const request = decodeRecord(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    const { owner, key } = request;
    if (this.#path(owner, key) !== path) throw new Error(`its name is not that of the key ${key} of ${owner}`);
    return request;
  }

  async #names(): Promise<string[]> {
    try {
      return await readdir(this.#folder);
    } catch (error) {
      if (isMissing(error)) return [];
      throw error;
    }
  }

  /** Runs the work with a function that makes new and removed names durable. */
  async #withFolder<T>(work: (sync: () => Promise<void>) => Promise<T>): Promise<T> {
    // Windows cannot sync a folder; NTFS has a journal for names.
    if (process.platform === "win32") return work(async () => {});
    const folder = await open(this.#folder, "r");
    try {
      return await work(() => folder.sync());
    } finally {
      await folder.close();
    }
  }
}

async function readIfThere(path: string): Promise<Uint8Array | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

async function removeIfLeftBehind(path: string): Promise<void> {
  try {
    if (Date.now() - (await stat(path)).mtimeMs > LEFT_BEHIND_AFTER) await rm(path, { force: true });
  } catch (error) {
    // Another process renamed or removed it.
    if (!isMissing(error)) throw error;
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "ENOENT";
}
