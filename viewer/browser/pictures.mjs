// The pictures of the viewer in docs/images: made of real runs by `make test-browser`.

import { join } from "node:path";
import { openBrowser, ROOT, view } from "./browser.mjs";

const { child, address } = await view(...process.argv.slice(2));
const browser = await openBrowser();
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 860 }, colorScheme: "light" });
  page.setDefaultTimeout(120_000);
  const shoot = (name) => page.screenshot({ path: join(ROOT, "docs", "images", `viewer-${name}.png`) });
  const go = (hash) => page.goto(new URL(hash, page.url()).href);
  await page.goto(address);
  await page.locator("figure.chart").nth(3).waitFor();
  await shoot("run");
  await go("#/episodes?run=0");
  await page.locator("tr.line").first().waitFor();
  await shoot("episodes");
  await go("#/hurts?run=0");
  await page.locator(".heat td").first().waitFor();
  await shoot("trouble");
  await go("#/episodes?run=0&reason=any&sort=turns");
  await page.locator("tr.line a").first().click();
  await page.locator(".turn.left").waitFor();
  await page.locator(".turn.left").scrollIntoViewIfNeeded();
  await page.waitForTimeout(500);
  await shoot("divergence");
  await go("#/hurts?run=0");
  await page.locator("table a").last().click();
  await page.locator("[data-place='3']:visible").first().hover();
  await shoot("tokens");
} finally {
  await browser.close();
  child.kill();
}
