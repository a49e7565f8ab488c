// Runs the engine beside the page, so that typing never waits for it: a question comes in as a text, its answer goes out as one. The page's
// Content-Security-Policy does not hold for workers. This one requests one file, and the engine imports nothing.
async function start() {
  const { instance } = await WebAssembly.instantiate(await (await fetch("playground.wasm")).arrayBuffer());
  const { answer, answered, memory, room } = instance.exports;
  onmessage = ({ data }) => {
    const question = new TextEncoder().encode(data);
    const place = room(question.length);
    if (place === 0) {
      postMessage(null);
      return;
    }
    new Uint8Array(memory.buffer, place).set(question);
    const length = answer();
    postMessage(new TextDecoder().decode(new Uint8Array(memory.buffer, answered(), length)));
  };
  postMessage("ready");
}

// The page sees errors of a worker, and no rejections.
start().catch(reportError);
