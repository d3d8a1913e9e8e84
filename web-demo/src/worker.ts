/** Runs the core beside the page, so that typing never waits for it. */
import start, { call } from "shardwise/raw";
import wasm from "shardwise/wasm?url";
import type { Call, Reply } from "./planner";

const ready = start({ module_or_path: wasm });

self.addEventListener("message", async ({ data }: MessageEvent<{ turn: number; calls: Call[] }>) => {
  const reply = (answer: Omit<Reply, "turn">) => self.postMessage({ turn: data.turn, ...answer });
  try {
    await ready;
    reply({ texts: data.calls.map(({ verb, request }) => call(verb, request)) });
  } catch (e) {
    reply({ texts: [], failure: String(e) });
  }
});
