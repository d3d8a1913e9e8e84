import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "shardwise";
import { fields, go, open, pageUnderTest, settled, unfold, verdict } from "./browser.js";

pageUnderTest();

test("a plan is on the screen at once", async () => {
  const { page, faults, close } = await open();
  assert.match(
    await verdict(page),
    /Fits(, but tightly)?: .+, micro-batch \d+, recompute \w+, [\d.]+ of 79\.1 GiB; .+, about \$[\d,]+\./,
  );
  assert.equal(await page.locator(".figures button").count(), 6);
  assert.ok((await page.locator(".plans tbody tr").count()) >= 4);
  assert.match(await page.locator(".part-why-not").innerText(), /DDP needs .+ GiB/);
  assert.match(
    (await page.locator(".part-memory .bar-large").getAttribute("aria-label")) ?? "",
    /^Memory per GPU: .+parameters/,
  );
  assert.deepEqual(faults, []);
  await close();
});

test("the figures are those of the core", async () => {
  const core = await load();
  const request = {
    model: "llama-3.1-8b",
    cluster: "8xH100-SXM-80GB",
    seq_len: 8192,
    global_batch: 64,
    run: { tokens: 10e9 },
  };
  const reply = core.ask("plan", request);
  assert.ok("answer" in reply);
  const { best, ranked } = reply.answer;
  const { page, close } = await open();
  const text = await page.locator(".figures").innerText();
  assert.ok(text.includes(`${((best.fit.capacity - best.fit.headroom) / 2 ** 30).toFixed(2)} GiB`), text);
  assert.ok(text.includes(`${(100 * best.step.mfu).toFixed(1)} %`), text);
  assert.deepEqual(
    await page.locator(".plans tbody button").allInnerTexts(),
    ranked.map((line) => line.name),
  );
  await close();
});

test("the address holds the whole set-up and brings it back", async () => {
  const fragment =
    "#v=1&model=qwen2-7b&cluster=2x8xA100-SXM4-80GB&seq_len=4096&global_batch=128&run.tokens=1e9&recipe.method=lora&recipe.lora.rank=64&recipe.lora.targets=q_proj,v_proj&search.shardings=zero3,fsdp2&run.price=spot";
  const { page, close } = await open({ fragment });
  assert.match(await verdict(page), /Fits/);
  await page.locator("[data-path='seq_len']").fill("2048");
  await settled(page);
  const kept = await fields(page);
  assert.equal(kept.get("seq_len"), "2048");
  const expected = new URLSearchParams(fragment.slice(1));
  expected.set("seq_len", "2048");
  assert.deepEqual([...kept].sort(), [...expected].sort());
  const before = await verdict(page);
  await page.reload();
  await settled(page);
  assert.equal(await verdict(page), before);
  await unfold(page);
  assert.equal(await page.locator("[data-path='recipe.lora.rank']").inputValue(), "64");
  assert.ok(await page.locator("[data-path='search.shardings'][data-value='zero3']").isChecked());
  assert.ok(!(await page.locator("[data-path='search.shardings'][data-value='ddp']").isChecked()));
  await close();
});

test("a link followed on the open page replaces the set-up", async () => {
  const { page, close } = await open();
  await go(page, "#v=1&model=gpt2&cluster=1xa10&seq_len=1024&global_batch=8");
  assert.match(await verdict(page), /a step\.$/);
  assert.equal(await page.locator("input[data-path='model']").inputValue(), "gpt2");
  await close();
});

test("every control reaches the address and gets an answer or the core's objection", async () => {
  // Small, so that going through all of them takes no longer than it must.
  const start = "#v=1&model=gpt2&cluster=4xa10&seq_len=1024&global_batch=16&run.tokens=1e9";
  const { page, faults, close } = await open({ fragment: start });
  await unfold(page);
  // In the page itself: some two hundred controls, each used once, each with its answer awaited.
  const used = await page.evaluate(async (start) => {
    const answer = document.querySelector("#answer");
    const until = async (/** @type {() => boolean} */ is) => {
      for (const from = Date.now(); !is() && Date.now() - from < 30_000; ) {
        await new Promise((done) => setTimeout(done, 10));
      }
      return is();
    };
    const held = (/** @type {string} */ path) => new URLSearchParams(location.hash.slice(1)).get(path) ?? "";
    const say = (
      /** @type {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} */ it,
      value = "2",
    ) => {
      it.value = value;
      it.dispatchEvent(new Event("input", { bubbles: true }));
      return value;
    };
    const use = (/** @type {HTMLElement} */ it, /** @type {string} */ path) => {
      if (it instanceof HTMLSelectElement) {
        return say(it, [...it.options].find((option) => option.value !== it.value)?.value);
      }
      const input = /** @type {HTMLInputElement} */ (it);
      if (input.type === "checkbox") {
        input.click();
        return input.dataset.value ?? String(input.checked);
      }
      if (path === "model") return say(input, "qwen3-8b");
      if (path === "cluster") return say(input, input.inputMode === "numeric" ? "2" : "a100-sxm-80");
      return say(input, /(targets|modules_to_save)$/.test(path) ? "q_proj" : "2");
    };
    /** @type {{ path: string, changed: string, arrived: boolean, said: string, beside: number }[]} */
    const used = [];
    const controls = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#inputs [data-path]")]);
    for (const it of controls.filter((it) => it.checkVisibility())) {
      const path = it.dataset.path ?? "";
      const changed = use(it, path);
      await until(() => answer?.getAttribute("aria-busy") === "false");
      const arrived = await until(() => held(path).includes(changed));
      const said = document.querySelector(".verdict")?.textContent ?? "";
      const faults = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".fault")]);
      used.push({ path, changed, arrived, said, beside: faults.filter((f) => f.checkVisibility()).length });
      // What never reached the address leaves nothing to go back from.
      if (location.hash === start) continue;
      await new Promise((done) => {
        addEventListener("hashchange", done, { once: true });
        location.hash = start;
      });
    }
    return used;
  }, start);
  assert.ok(used.length > 150, `${used.length} controls`);
  for (const { path, changed, arrived, said, beside } of used) {
    assert.ok(arrived, `${path} = ${changed} is not in the address`);
    assert.match(said, /Fits|Does not fit|Nothing fits|allowed/, path);
    if (said.includes("allowed")) assert.equal(beside, 1, `${path}: ${said}`);
  }
  assert.deepEqual(faults, []);
  await close();
});

test("a fault stands beside its field, in the core's words", async () => {
  const { page, close } = await open();
  await page.locator("[data-path='seq_len']").fill("many");
  await settled(page);
  const core = await load();
  const reply = JSON.parse(
    core.call(
      "plan",
      JSON.stringify({
        model: "llama-3.1-8b",
        cluster: "8xH100-SXM-80GB",
        seq_len: "many",
        global_batch: 64,
      }),
    ),
  );
  assert.equal(await page.locator(".fault:visible").innerText(), reply.error.message);
  assert.equal(await page.locator("[data-path='seq_len']").getAttribute("aria-invalid"), "true");
  await page.getByRole("button", { name: "Go to the field" }).click();
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("data-path")), "seq_len");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("4096");
  await settled(page);
  assert.equal(await page.locator(".fault:visible").count(), 0);
  assert.match(await verdict(page), /Fits/);
  await close();
});

test("a config pasted, dropped or opened takes the model's place", async () => {
  const config = {
    model_type: "llama",
    hidden_size: 2048,
    intermediate_size: 5632,
    num_hidden_layers: 22,
    num_attention_heads: 32,
    num_key_value_heads: 4,
    vocab_size: 32000,
  };
  const { page, close } = await open();
  await page.getByLabel("Config", { exact: true }).check();
  await settled(page);
  assert.match(await page.locator(".resolved").first().innerText(), /^dimensions: /);
  assert.ok(!(await page.getByLabel("Hidden size").isVisible()));
  await page.getByLabel("Hugging Face config.json").fill(JSON.stringify(config));
  await settled(page);
  assert.match(
    await page.locator(".resolved").first().innerText(),
    /^llama: 1\.10 B parameters \(1,100,048,384\)/,
  );
  await page.locator("input[type=file]").setInputFiles({
    name: "config.json",
    mimeType: "application/json",
    buffer: Buffer.from(JSON.stringify({ ...config, num_hidden_layers: 2 })),
  });
  await page.waitForFunction(() => document.querySelector(".resolved")?.textContent?.includes(" 2 layers"));
  const dropped = await page.evaluateHandle(
    (text) => {
      const data = new DataTransfer();
      data.items.add(new File([text], "config.json", { type: "application/json" }));
      return data;
    },
    JSON.stringify({ ...config, num_hidden_layers: 3 }),
  );
  await page.dispatchEvent("body", "drop", { dataTransfer: dropped });
  await page.waitForFunction(() => document.querySelector(".resolved")?.textContent?.includes(" 3 layers"));
  await page.getByLabel("Name", { exact: true }).check();
  await settled(page);
  assert.equal(await page.locator("input[data-path='model']").inputValue(), "llama-3.1-8b");
  await close();
});

test("dimensions said by hand make a model", async () => {
  const { page, close } = await open();
  await page.getByLabel("By hand").check();
  await settled(page);
  assert.match(await page.locator(".resolved").first().innerText(), /^dimensions: 8\.03 B .+32 layers/);
  await page.getByLabel("Layers", { exact: true }).fill("4");
  await settled(page);
  assert.match(await page.locator(".resolved").first().innerText(), /4 layers/);
  await page.getByLabel("Experts", { exact: true }).fill("8");
  await settled(page);
  assert.match(await page.locator(".resolved").first().innerText(), / active/);
  await page.getByLabel("Heads", { exact: true }).fill("seven");
  await settled(page);
  assert.match(await page.locator(".fault:visible").innerText(), /^model\.heads: /);
  await page.getByLabel("Heads", { exact: true }).fill("16");
  await settled(page);
  assert.match((await fields(page)).get("model") ?? "", /"heads":16/);
  const before = await verdict(page);
  await page.reload();
  await settled(page);
  assert.equal(await verdict(page), before);
  assert.equal(await page.getByLabel("Heads", { exact: true }).inputValue(), "16");
  await page.getByLabel("Config", { exact: true }).check();
  await settled(page);
  assert.match(await page.getByLabel("Hugging Face config.json").inputValue(), /"heads": 16/);
  await close();
});

test("a price of one's own takes the place of the catalogue's", async () => {
  const { page, close } = await open();
  await page.getByLabel("Own price").fill("1.5");
  await settled(page);
  assert.match(await page.locator(".figures").innerText(), /\$12\.00\/h, on demand/);
  assert.equal((await fields(page)).get("cluster.price.on_demand"), "1.5");
  await page.locator("[data-key='figure-cost']").click();
  assert.match(await page.locator("dialog[open]").innerText(), /given in the request/);
  await page.keyboard.press("Escape");
  await page.getByLabel("Own price").fill("cheap");
  await settled(page);
  assert.match(await page.locator(".fault:visible").innerText(), /^cluster\.price\.on_demand: got "cheap"/);
  await close();
});

test("machines in full start from the named ones", async () => {
  const { page, close } = await open();
  const before = await verdict(page);
  await page.getByLabel("In full").check();
  await settled(page);
  const held = await fields(page);
  assert.equal(held.get("cluster"), null);
  assert.equal(held.get("cluster.accelerator"), "h100-sxm");
  assert.equal(held.get("cluster.nodes"), "1");
  assert.equal(await verdict(page), before);
  await page.locator("[data-path='cluster.price.on_demand']").fill("1");
  await settled(page);
  assert.match(await page.locator(".figures").innerText(), /\$8\.00\/h/);
  await page.getByLabel("By name").check();
  await settled(page);
  assert.equal((await fields(page)).get("cluster"), "8xh100-sxm");
  await close();
});
