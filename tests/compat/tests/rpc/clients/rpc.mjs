// The clients in Node.js of the end-to-end test `rpc`. Calls and outcomes are those of rpc.go. NODE_PATH does not work for modules, so
// the packages are looked for in the directory that PACKAGES names.
//
// usage: node rpc.mjs CALLS

import {createRequire} from "node:module";

const load = createRequire(process.env.PACKAGES + "/");
const grpc = load("@grpc/grpc-js");
const {Code, ConnectError} = load("@connectrpc/connect");
const node = load("@connectrpc/connect-node");
const web = load("@connectrpc/connect-web");
const protobuf = load("@bufbuild/protobuf");
const wkt = load("@bufbuild/protobuf/wkt");

const {address, library, calls} = JSON.parse(process.argv[2]);
const String_ = wkt.StringValueSchema;
const encode = (value) => Buffer.from(protobuf.toBinary(String_, protobuf.create(String_, {value})));
const decode = (bytes) => protobuf.fromBinary(String_, bytes).value;

// google.rpc.ErrorInfo, of which Connect gives the bytes: a reason, a domain, a map of texts.
function errorInfo(bytes) {
  const text = (reader) => Buffer.from(reader.bytes()).toString();
  const {BinaryReader} = load("@bufbuild/protobuf/wire");
  const info = {metadata: {}};
  for (const reader = new BinaryReader(bytes); reader.pos < reader.len; ) {
    const [field] = reader.tag();
    if (field === 1) info.reason = text(reader);
    else if (field === 2) info.domain = text(reader);
    else {
      const entry = new BinaryReader(reader.bytes());
      entry.tag();
      const name = text(entry);
      entry.tag();
      info.metadata[name] = text(entry);
    }
  }
  return info;
}

// The details of google.rpc.Status, of which grpc-js gives the bytes: the third field has an Any with the ErrorInfo.
function statusDetails(bytes) {
  const {BinaryReader} = load("@bufbuild/protobuf/wire");
  for (const reader = new BinaryReader(bytes); reader.pos < reader.len; ) {
    const [field, type] = reader.tag();
    if (field !== 3) { reader.skip(type); continue; }
    const any = new BinaryReader(reader.bytes());
    any.tag();
    const url = Buffer.from(any.bytes()).toString();
    any.tag();
    if (url === "type.googleapis.com/google.rpc.ErrorInfo") return errorInfo(any.bytes());
  }
  return undefined;
}

const headersOf = ({key, token}) => ({
  ...(key ? {"idempotency-key": key} : {}),
  ...(token ? {authorization: `Bearer ${token}`} : {}),
});

function outcome({values, replayed, code, message, info, advice, after}) {
  return {
    values, replayed: replayed === "true" || undefined, code, message, reason: info?.reason, retry: info?.metadata.retry,
    advice: advice ?? "", after: after ?? "",
  };
}

async function viaGrpc({method, values, ...one}) {
  const client = new grpc.Client(address, grpc.credentials.createInsecure());
  const metadata = new grpc.Metadata();
  for (const [name, value] of Object.entries(headersOf(one))) metadata.set(name, value);
  const seen = {};
  const note = (found) => {
    for (const name of ["idempotent-replayed", "idempotency-retry", "retry-after", "grpc-status-details-bin"]) {
      if (found.get(name).length > 0) seen[name] = found.get(name)[0];
    }
  };
  const result = await new Promise((resolve) => {
    const path = `/shop.v1.Orders/${method}`;
    const failed = (error) => {
      note(error.metadata);
      resolve({code: grpc.status[error.code].toLowerCase(), message: error.details});
    };
    if (method === "Watch") {
      const stream = client.makeBidiStreamRequest(path, encode, decode, metadata);
      const got = [];
      stream.on("metadata", note).on("error", failed).on("end", () => resolve({values: got}));
      stream.on("data", (value) => {
        got.push(value);
        if (got.length < values.length) stream.write(values[got.length]);
        else stream.end();
      });
      stream.write(values[0]);
    } else {
      const call = client.makeUnaryRequest(path, encode, decode, values[0], metadata, (error, value) => {
        if (error) failed(error);
        else resolve({values: [value]});
      });
      call.on("metadata", note);
    }
  });
  // The trailers of an error come before its callback, and the headers of a success before its message.
  client.close();
  const details = seen["grpc-status-details-bin"];
  return outcome({
    ...result, replayed: seen["idempotent-replayed"], info: details && statusDetails(details),
    advice: seen["idempotency-retry"], after: seen["retry-after"],
  });
}

const transports = {
  "connect-node: connect": () => node.createConnectTransport({baseUrl: `http://${address}`, httpVersion: "2", useHttpGet: true}),
  "connect-node: gRPC": () => node.createGrpcTransport({baseUrl: `http://${address}`}),
  "connect-web: connect": () => web.createConnectTransport({baseUrl: `http://${address}`, useHttpGet: true}),
  "connect-web: gRPC-Web": () => web.createGrpcWebTransport({baseUrl: `http://${address}`}),
};

// What protoc would make of the service.
function describe(name) {
  const side = name === "Get" ? wkt.MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS : 0;
  return {
    kind: "rpc", name, localName: name.toLowerCase(), parent: {typeName: "shop.v1.Orders"}, input: String_, output: String_,
    methodKind: name === "Watch" ? "bidi_streaming" : "unary", idempotency: side, deprecated: false,
  };
}

async function viaConnect({method, values, ...one}) {
  const transport = transports[library]();
  const header = new Headers(headersOf(one));
  try {
    let answer;
    const got = [];
    if (method === "Watch") {
      let go;
      let turn = new Promise((resolve) => (go = resolve));
      const input = (async function* () {
        for (const value of values) {
          yield protobuf.create(String_, {value});
          await turn;
          turn = new Promise((resolve) => (go = resolve));
        }
      })();
      answer = await transport.stream(describe(method), undefined, undefined, header, input);
      for await (const message of answer.message) {
        got.push(message.value);
        go();
      }
    } else {
      answer = await transport.unary(describe(method), undefined, undefined, header, protobuf.create(String_, {value: values[0]}));
      got.push(answer.message.value);
    }
    return outcome({values: got, replayed: answer.header.get("idempotent-replayed")});
  } catch (thrown) {
    const error = ConnectError.from(thrown);
    const code = Code[error.code].replace(/(?!^)([A-Z])/g, "_$1").toLowerCase();
    const detail = error.details.find(({type}) => type === "google.rpc.ErrorInfo");
    return outcome({
      code, message: error.rawMessage, info: detail && errorInfo(detail.value), replayed: error.metadata.get("idempotent-replayed"),
      advice: error.metadata.get("idempotency-retry"), after: error.metadata.get("retry-after"),
    });
  }
}

const seen = [];
for (const call of calls) seen.push(await (library === "grpc-js" ? viaGrpc(call) : viaConnect(call)));
console.log(JSON.stringify(seen));
process.exit(0);
