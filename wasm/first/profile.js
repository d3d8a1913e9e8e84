// Answers the kept requests with a module that notes what it reaches, and prints 1 for each place that
// it reached, 0 for each other one.
import { readFileSync } from "node:fs";
import { call, initSync } from "../pkg/shardwise.js";

const [, , module, requests] = process.argv;
const { reached } = initSync({ module: readFileSync(module) });
for (const line of readFileSync(requests, "utf8").trimEnd().split("\n")) {
  for (const [verb, request] of Object.entries(JSON.parse(line))) {
    const { error } = JSON.parse(call(verb, JSON.stringify(request)));
    if (error) throw new Error(`${line}\n${error.message}`);
  }
}
process.stdout.write(Array.from({ length: reached.length }, (_, i) => (reached.get(i) ? "1" : "0")).join(""));
