// Replays the conformance cases through the WASM face in Node.
import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "shardwise";
import { cases, digest, drawn, refusals, said } from "./cases.js";

const shardwise = await load();

test("there are cases", () => assert.ok(cases.length >= 50, `${cases.length} found`));

for (const { verb, name, request, answer, prose } of cases) {
  test(`${verb}/${name}`, () => {
    assert.equal(shardwise.call(verb, request), answer);
    if (prose !== null) assert.equal(shardwise.callText(verb, request), prose);
  });
}

test("every refusal says the kept words", () => {
  assert.ok(refusals.length >= 400, `${refusals.length} found`);
  for (const { file, line, verb, request, said: kept } of refusals) {
    assert.equal(said(shardwise.call(verb, request)), kept, `${file}:${line}`);
  }
});

test("requests drawn at random keep their answers", () => {
  assert.ok(drawn.length >= 300, `${drawn.length} found`);
  for (const { line, verb, request, digest: kept } of drawn) {
    assert.equal(digest(shardwise.call(verb, request)), kept, `drawn.txt:${line}`);
  }
});

test("ask gives the same by value", () => {
  const { request, answer } = cases.find(({ verb }) => verb === "estimate");
  assert.deepEqual(shardwise.ask("estimate", JSON.parse(request)), JSON.parse(answer));
});
