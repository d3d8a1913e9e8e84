// Replays the conformance cases through the WASM face in Chromium, the files as they are.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { open } from "./browser.js";
import { cases, digest, drawn, refusals, said } from "./cases.js";

const { tab, faults, close } = await open(
  fileURLToPath(new URL("../..", import.meta.url)),
  "tests/conformance/page.html",
);
after(close);

/** What the page answers to many requests at once. */
const answersTo = (cases) =>
  tab.evaluate(
    async (asked) => {
      const shardwise = await globalThis.shardwise;
      return asked.map(([verb, request]) => shardwise.call(verb, request));
    },
    cases.map(({ verb, request }) => [verb, request]),
  );

for (const { verb, name, request, answer, prose } of cases) {
  test(`${verb}/${name}`, async () => {
    const [given, text] = await tab.evaluate(
      async ([verb, request]) => {
        const shardwise = await globalThis.shardwise;
        return [shardwise.call(verb, request), shardwise.callText(verb, request)];
      },
      [verb, request],
    );
    assert.equal(given, answer);
    if (prose !== null) assert.equal(text, prose);
  });
}

test("every refusal says the kept words", async () => {
  const answers = await answersTo(refusals);
  assert.deepEqual(
    answers.map(said),
    refusals.map((refusal) => refusal.said),
  );
});

test("requests drawn at random keep their answers", async () => {
  const answers = await answersTo(drawn);
  assert.deepEqual(
    answers.map(digest),
    drawn.map((it) => it.digest),
  );
});

test("the page had no faults", () => assert.deepEqual(faults, []));
