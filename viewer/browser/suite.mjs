// The viewer in a real Chromium: `make test-browser`.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { ended, newFolder, openBrowser, python, ROOT, view } from "./browser.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const folder = newFolder();
const SIZE = { width: 1360, height: 860 };
const children = [];
let browser, base, context, page, faults;

async function open(...paths) {
  const { child, address } = await view(...paths);
  children.push(child);
  return address;
}

before(async () => {
  await ended(python("-m", "tests.view.made_runs", folder));
  browser = await openBrowser();
  base = await open(join(folder, "finished"), join(folder, "crashed"), join(folder, "nasty"));
});

after(async () => {
  await browser?.close();
  for (const child of children) child.kill();
});

beforeEach(async () => {
  faults = [];
  context = await browser.newContext({ viewport: SIZE, acceptDownloads: true });
  page = await context.newPage();
  page.setDefaultTimeout(600_000);
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("request", (request) => {
    if (!/^(http:\/\/127\.0\.0\.1:|file:|data:|blob:)/.test(request.url())) faults.push(`asked for ${request.url()}`);
  });
});

afterEach(async () => {
  await context.close();
  assert.deepEqual(faults, []);
});

/** Open an address of the viewer at some page; the token leaves the address. */
async function go(address, hash = "#/") {
  await page.goto(address);
  assert.ok(!page.url().includes("token"));
  await page.goto(new URL(hash, page.url()).href);
}

async function accessible() {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter((one) => ["serious", "critical"].includes(one.impact));
  assert.deepEqual(serious.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 200)}`), []);
}

test("a finished run: curves, hover, zoom, pictures as files", async () => {
  await go(base);
  await page.getByRole("checkbox", { name: "crashed" }).uncheck();
  await page.getByRole("checkbox", { name: "nasty" }).uncheck();
  const chart = page.locator("figure.chart").first();
  await chart.waitFor();
  assert.match(await page.locator("tbody tr").first().innerText(), /finished[\s\S]*24 of 24/);
  assert.ok((await page.locator("figure.chart").count()) >= 10);
  const drawing = await chart.locator("svg").first().boundingBox();
  const box = await chart.boundingBox();
  assert.ok(drawing.width > box.width - 40, "the drawing fills its frame");
  await chart.locator("svg").first().hover();
  await chart.locator(".legend .at").waitFor();
  await page.mouse.down();
  await page.mouse.move(drawing.x + drawing.width - 30, drawing.y + 60, { steps: 4 });
  await page.mouse.up();
  await chart.getByRole("button", { name: "whole" }).click();
  for (const kind of ["SVG", "PNG"]) {
    const [download] = await Promise.all([page.waitForEvent("download"), chart.getByRole("button", { name: `as ${kind}` }).click()]);
    const bytes = readFileSync(await download.path());
    assert.ok(kind === "PNG" ? bytes.subarray(1, 4).toString() === "PNG" : bytes.toString().includes("<svg"));
    assert.ok(!bytes.includes("var(--"));
  }
  await page.getByRole("button", { name: "updates" }).click();
  assert.match(page.url(), /x=updates/);
  await accessible();
});

test("a crashed run says so and shows its last words", async () => {
  await go(base, "#/?runs=1");
  await page.getByText("It stopped before its end").waitFor();
  await page.getByText("started at update 0 of 24").waitFor();
  await accessible();
});

test("a lab of 30 runs: six at first, any of them by a click", async () => {
  await go(await open(join(folder, "lab")));
  await page.locator("figure.chart").first().waitFor();
  assert.equal(await page.getByRole("checkbox").count(), 30);
  assert.equal(await page.getByRole("checkbox", { checked: true }).count(), 6);
  await page.getByRole("checkbox", { name: "lab/without_id-5" }).check();
  await page.getByText("lab/without_id-5: student, evaluated").first().waitFor();
  await accessible();
});

test("from a divergence to its tokens", async () => {
  await go(base, "#/episodes?run=0");
  await page.getByLabel("Left the reference").selectOption("other observation");
  await page.getByRole("button", { name: "Turns" }).click();
  await page.locator("tr.line a").first().click();
  const turn = page.locator(".turn.left");
  await turn.getByText("Here the rollout left the reference").waitFor();
  assert.ok((await turn.locator("del").count()) > 0);
  assert.ok((await turn.locator("ins").count()) > 0);
  await turn.getByText(/Admissible actions: \d+ differ/).waitFor();
  assert.match(await turn.locator(".actions del").first().innerText(), /take key/);
  assert.ok((await turn.locator(".actions ins").count()) > 0);
  await accessible();
  await page.goto(new URL("#/hurts?run=0", page.url()).href);
  await page.locator("table a").last().click();
  const token = page.locator("[data-place='1']:visible").first();
  await token.hover();
  await page.getByText(/student -?\d+\.\d+ · teacher -?\d+\.\d+ · advantage -?\d+\.\d+/).first().waitFor();
  await page.getByText(/teacher's choices: "open" -0\.100/).first().waitFor();
  assert.ok((await page.locator(".tokens .inserted").count()) > 0);
  await page.locator("summary:visible", { hasText: "Prompt of the full response" }).first().click();
  await page.getByText("Your task is to find a key.").first().waitFor();
  await accessible();
});

test("by keyboard: from the list to an episode and through its tokens", async () => {
  await go(base, "#/episodes?run=0");
  await page.locator("tr.line").first().waitFor();
  await page.getByLabel("Task or id").focus();
  await page.keyboard.type("000003");
  await page.getByRole("region", { name: "Episodes" }).focus();
  for (let press = 0; press < 40 && !(await page.evaluate(() => document.activeElement?.closest("tr.line") !== null)); press++) {
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Enter");
  await page.locator("#turn-1 summary", { hasText: "token by token" }).focus();
  await page.keyboard.press("Enter");
  await page.locator("#turn-1 .tokens .text").first().focus();
  await page.keyboard.press("ArrowRight");
  await page.locator("#turn-1").getByText("student").waitFor();
});

test("filters, sorts and scrolls a table of which only a part is drawn", async () => {
  await go(base, "#/episodes?run=0");
  await page.locator("tr.line").first().waitFor();
  assert.ok((await page.locator("tr.line").count()) < 60);
  await page.getByRole("region", { name: "Episodes" }).evaluate((box) => (box.scrollTop = box.scrollHeight));
  await page.locator("tr.line", { hasText: "95" }).first().waitFor();
  await page.getByLabel("Outcome").selectOption("failure");
  await page.getByLabel("Batch").fill("0-1");
  const text = await page.locator("main p").first().innerText();
  assert.match(text, /^\d+ of 96 episodes/);
  assert.equal(await page.locator("tr.line", { hasText: "success" }).count(), 0);
  await page.getByLabel("Of").selectOption("evaluation");
  await page.getByText("of 16 episodes").waitFor();
  await accessible();
});

test("the same task in two runs, side by side", async () => {
  await go(base, "#/episode?run=0&row=0");
  await page.getByRole("link", { name: "compare", exact: true }).click();
  await page.getByRole("radio", { name: /right: crashed/ }).first().check();
  await page.getByText("They part at").or(page.getByText("They are the same")).waitFor();
  await accessible();
});

test("text of a model stays text, however long or strange", async () => {
  await go(base, "#/episodes?run=2");
  await page.locator("tr.line a").first().click();
  await page.getByText("show all").first().waitFor();
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.equal(await page.locator("main script, main img").count(), 0);
  assert.ok((await page.locator("h1").innerText()).includes("<script>"));
  await page.locator("#turn-1").getByRole("button", { name: /show all/ }).first().click();
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "nothing overflows");
  await page.locator("#turn-1 summary", { hasText: "token by token" }).click();
  await page.locator("[data-place='13']").first().waitFor();
  assert.equal(await page.evaluate(() => window.pwned), undefined);
});

test("a run of an older version has fewer things to show, and says which", async () => {
  const old = await open(join(folder, "lab", "vanilla-2"));
  await go(old, "#/episode?row=0");
  await page.getByText("When full responses began and ended was not stored.").waitFor();
  await page.goto(new URL("#/hurts", page.url()).href);
  await page.getByText("This run stored no responses token by token.").waitFor();
});

test("without the token there is nothing to see", async () => {
  page.removeAllListeners("console"); // Chromium itself says that it was refused
  const answer = await page.goto(new URL("/", base).href);
  assert.equal(answer.status(), 403);
});

test("exported pages open from disk", async () => {
  const pages = join(newFolder(), "pages");
  await ended(python("-m", "actfirst", "view", join(folder, "finished"), join(folder, "crashed"), "--export", pages));
  await page.goto(`file://${pages}/index.html`);
  await page.locator("figure.chart").first().waitFor();
  await page.getByRole("link", { name: "Episodes", exact: true }).click();
  await page.locator("tr.line a").first().click();
  await page.locator("#turn-1").waitFor();
  await page.locator("#turn-1 summary", { hasText: "token by token" }).click();
  await page.locator("[data-place='1']").first().waitFor();
});

test("a run that is training: live, and the same run when it was killed", async () => {
  const run = join(newFolder(), "live");
  const settings = ["run.updates=500", "evaluation.tasks_per_split=2", "evaluation.every=0", "evaluation.at_end=false", "evaluation.teacher=false"];
  const training = python("-m", "actfirst", "train", "pocket", ...settings, "--run", run);
  training.stdout.resume();
  try {
    for (let wait = 0; wait < 12000 && !existsSync(join(run, "metrics.jsonl")); wait++) await new Promise((resolve) => setTimeout(resolve, 100));
    await go(await open(run));
    await page.getByText("training", { exact: true }).first().waitFor();
    const updates = page.locator("tbody tr td").nth(4);
    const [first] = await counted(updates, 1);
    const [later] = await counted(updates, first + 1);
    assert.ok(later > first, "the page follows the run");
    await accessible();
    await page.goto(new URL("#/episode?row=0", page.url()).href);
    await page.locator("#turn-1 summary", { hasText: "Prompts of this turn" }).click();
    await page.locator("#turn-1").getByText("exactly as it was used").first().waitFor();
    await accessible();
    await page.goto(new URL("#/", page.url()).href);
  } finally {
    training.kill("SIGKILL");
    await ended(training);
  }
  await page.getByText("It stopped before its end").waitFor();
});

/** Wait until a cell says at least so many of all updates. */
async function counted(cell, least) {
  for (let wait = 0; wait < 12000; wait++) {
    const found = /(\d+) of (\d+)/.exec(await cell.innerText());
    if (found && Number(found[1]) >= least) return [Number(found[1])];
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`no update ${least}`);
}
