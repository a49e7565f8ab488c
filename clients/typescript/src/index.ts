export type { AnswerDetails, IdempotentResponse } from "./answer.js";
export { IdempotentClient, type ResumedRequest } from "./client.js";
export {
  Aborted,
  CredentialsFailed,
  DamagedRecord,
  Expired,
  IdempotencyError,
  KeyReused,
  NoAnswer,
  OtherOwner,
  StoreFailed,
} from "./errors.js";
export { IndexedDbStore } from "./indexed-db-store.js";
export { type KeyValueStorage, KeyValueStore } from "./key-value-store.js";
export type { ClientOptions, Credentials, CredentialsRequest } from "./options.js";
export type { PendingRequest } from "./record.js";
export { MemoryStore, type Store, type StoreContents } from "./store.js";
