import { call, callText, version } from "../pkg/shardwise.js";

/** The verbs on objects; `call` and `callText` on text, byte for byte what the core prints. */
export const face = Object.freeze({
  ask: (verb, request) => JSON.parse(call(verb, JSON.stringify(request))),
  call,
  callText,
  version,
});
