// Answers the kept requests with a module that notes what it reaches, and prints 1 for each place that
// it reached, 0 for each other one. Each request is asked of an instance that answers it alone, as the
// page's first one is, and of one that has answered those before it: memory is handed out differently.
import { readFileSync } from "node:fs";
import { instance, requests } from "./instance.js";

const [, , file, list] = process.argv;
const module = await WebAssembly.compile(readFileSync(file));
const words = WebAssembly.Module.exports(module).filter(({ name }) => /^reached\d+$/.test(name)).length;
const reached = new Uint32Array(words);

function note({ exports }) {
  for (let i = 0; i < words; i++) reached[i] |= exports[`reached${i}`].value;
}

const lasting = instance(module);
for (const { verb, request } of requests(readFileSync(list, "utf8"))) {
  const alone = instance(module);
  const answers = [alone, lasting].map(({ call }) => call(verb, request));
  if (answers[0] !== answers[1]) throw new Error(`${verb} ${request}: two answers`);
  const { error } = JSON.parse(answers[0]);
  if (error) throw new Error(`${verb} ${request}: ${error.message}`);
  note(alone);
}
note(lasting);
for (const word of reached) {
  process.stdout.write(Array.from({ length: 32 }, (_, bit) => (word >>> bit) & 1).join(""));
}
