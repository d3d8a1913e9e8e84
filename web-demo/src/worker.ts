/** Runs the core beside the page, so that typing never waits for it. */
import { load } from "shardwise";
import wasm from "../../wasm/pkg/shardwise_bg.wasm?url";
import type { Call, Reply } from "./planner";

const ready = load(wasm);

self.addEventListener("message", async ({ data }: MessageEvent<{ turn: number; calls: Call[] }>) => {
  const reply = (answer: Omit<Reply, "turn">) => self.postMessage({ turn: data.turn, ...answer });
  try {
    const { call } = await ready;
    reply({ texts: data.calls.map(({ verb, request }) => call(verb, request)) });
  } catch (e) {
    reply({ texts: [], failure: String(e) });
  }
});
