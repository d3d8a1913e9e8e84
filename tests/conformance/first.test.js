// The first module against the whole one: the same bytes or a trap, never other bytes.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { load } from "shardwise";
import { instance, requests } from "../../wasm/first/instance.js";
import { cases, drawn, refusals } from "./cases.js";

const whole = await load();
const first = await WebAssembly.compile(readFileSync(new URL(import.meta.resolve("shardwise/first-wasm"))));
const kept = requests(readFileSync(new URL("../../wasm/first/requests.jsonl", import.meta.url), "utf8"));

let { call } = instance(first);

/** The first module's answer, or undefined where it has none: then its instance has to go. */
function answer({ verb, request }) {
  try {
    return call(verb, request);
  } catch (trap) {
    assert.ok(trap instanceof WebAssembly.RuntimeError, `${verb} ${request}: ${trap}`);
    ({ call } = instance(first));
    return undefined;
  }
}

test("the kept requests are answered, each by a new instance too", () => {
  assert.ok(kept.length >= 20, `${kept.length} found`);
  for (const it of kept) {
    const answered = whole.call(it.verb, it.request);
    assert.equal(answer(it), answered);
    assert.equal(instance(first).call(it.verb, it.request), answered);
  }
});

for (const [name, list] of Object.entries({ cases, refusals, drawn })) {
  test(`${name}: the same bytes or a trap`, (t) => {
    let answered = 0;
    for (const it of list) {
      const given = answer(it);
      if (given === undefined) continue;
      answered += 1;
      assert.equal(given, whole.call(it.verb, it.request), `${it.verb} ${it.request}`);
    }
    t.diagnostic(`${answered} of ${list.length} are answered by the first module`);
    assert.ok(answered < list.length);
  });
}
