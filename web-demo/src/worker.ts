/** Runs a module of the core beside the page, so that typing never waits for it. */
import { load, type Shardwise } from "shardwise";
import type { Message, Reply } from "./planner";

let arrived: (module: WebAssembly.Module) => void = () => {};
const core: Promise<Shardwise> = new Promise<WebAssembly.Module>((done) => {
  arrived = done;
}).then(load);

self.addEventListener("message", async ({ data }: MessageEvent<Message>) => {
  if ("module" in data) {
    arrived(data.module);
    return;
  }
  const reply = (answer: Reply) => self.postMessage(answer);
  try {
    const { call } = await core;
    reply({ texts: data.calls.map(({ verb, request }) => call(verb, request)) });
  } catch (e) {
    reply({ failure: String(e) });
  }
});
