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
  const { page, faults, close } = await open();
  await unfold(page);
  const start =
    new URL(page.url()).hash ||
    "#v=1&model=llama-3.1-8b&cluster=8xH100-SXM-80GB&seq_len=8192&global_batch=64&run.tokens=10e9";
  const controls = page.locator("#inputs [data-path]:visible");
  const count = await controls.count();
  assert.ok(count > 70, `${count} controls`);
  for (let i = 0; i < count; i++) {
    const it = controls.nth(i);
    const path = (await it.getAttribute("data-path")) ?? "";
    const changed = await it.evaluate((element) => {
      const say = (/** @type {string} */ value) => {
        /** @type {HTMLInputElement} */ (element).value = value;
        element.dispatchEvent(new Event("input", { bubbles: true }));
        return value;
      };
      if (element instanceof HTMLSelectElement) {
        const other = [...element.options].find((option) => option.value !== element.value);
        return say(other?.value ?? "");
      }
      if (element instanceof HTMLInputElement && element.type === "checkbox") {
        element.click();
        return element.dataset.value ?? String(element.checked);
      }
      const path = element.getAttribute("data-path") ?? "";
      if (path === "model") return say("qwen3-8b");
      if (path === "cluster")
        return say(/** @type {HTMLInputElement} */ (element).inputMode === "numeric" ? "4" : "a100-sxm-80");
      return say(path.endsWith("targets") || path.endsWith("modules_to_save") ? "q_proj" : "2");
    });
    await settled(page);
    // The address follows the control; on a busy machine not at once.
    let held = await fields(page);
    for (let tries = 0; tries < 50 && !(held.get(path) ?? "").includes(changed); tries++) {
      await page.waitForTimeout(100);
      held = await fields(page);
    }
    assert.ok((held.get(path) ?? "").includes(changed), `${path} = ${changed}: ${held}`);
    const said = await verdict(page);
    assert.match(said, /Fits|Does not fit|Nothing fits|allowed/, path);
    if (said.includes("allowed")) {
      assert.equal(await page.locator(".fault:visible").count(), 1, `${path}: ${said}`);
    }
    await go(page, start);
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
  await page.getByLabel("By config").check();
  await settled(page);
  assert.match(await page.locator(".resolved").first().innerText(), /^dimensions: /);
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
  await page.getByLabel("By name").first().check();
  await settled(page);
  assert.equal(await page.locator("input[data-path='model']").inputValue(), "llama-3.1-8b");
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
  await page.getByLabel("By name").nth(1).check();
  await settled(page);
  assert.equal((await fields(page)).get("cluster"), "8xh100-sxm");
  await close();
});
