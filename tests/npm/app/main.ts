import { load } from "shardwise";

const shardwise = await load();
const reply = shardwise.ask("plan", {
  model: "llama-3.1-8b",
  cluster: "8xH100-SXM-80GB",
  seq_len: 8192,
  global_batch: 64,
});
const text = "error" in reply ? reply.error.message : reply.answer.best.fit.reason;
document.querySelector("output")?.replaceChildren(text);
