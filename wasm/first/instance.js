// An instance of the core of its own. The package's glue holds one for good, which a trap would spoil.
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The exports of a new instance, and its call on text. */
export function instance(module) {
  const nothing = { __wbindgen_init_externref_table() {} };
  const { exports } = new WebAssembly.Instance(module, { "./shardwise_bg.js": nothing });
  const { memory, __wbindgen_malloc: take, __wbindgen_free: free } = exports;
  const give = (text) => {
    const bytes = encoder.encode(text);
    const at = take(bytes.length, 1) >>> 0;
    new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
    return [at, bytes.length];
  };
  const call = (verb, request) => {
    const [at, length] = exports.call(...give(verb), ...give(request));
    const text = decoder.decode(new Uint8Array(memory.buffer, at >>> 0, length));
    free(at, length, 1);
    return text;
  };
  return { call, exports };
}

/** The kept requests: verb and text, as the page sends it. */
export function requests(lines) {
  return lines
    .trimEnd()
    .split("\n")
    .flatMap((line) => Object.entries(JSON.parse(line)))
    .map(([verb, request]) => ({ verb, request: JSON.stringify(request) }));
}
