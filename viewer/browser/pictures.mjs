// The pictures of the viewer in docs/images: made of real runs by `make test-browser`.

import { join } from "node:path";
import { openBrowser, ROOT, view } from "./browser.mjs";

const { child, address } = await view(...process.argv.slice(2));
const browser = await openBrowser();
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 860 }, colorScheme: "light" });
  page.setDefaultTimeout(600_000);
  const shoot = (name) => page.screenshot({ path: join(ROOT, "docs", "images", `viewer-${name}.png`) });
  const go = (hash) => page.goto(new URL(hash, page.url()).href);
  await page.goto(address);
  await page.locator("figure.chart").nth(3).waitFor();
  await shoot("run");
  await go("#/episodes?run=0");
  await page.locator("tr.line").first().waitFor();
  await shoot("episodes");
  await go("#/hurts?run=0");
  await page.locator("table").nth(1).locator("a").first().waitFor();
  await shoot("trouble");
  await page.locator("table").nth(1).locator("a").first().click();
  await page.locator("[data-place][style*='214']:visible").first().hover();
  await shoot("tokens");
  await go("#/episodes?run=0&reason=any&sort=reason");
  await page.locator("tr.line a").first().click();
  await page.locator(".divergence").first().waitFor();
  await page.locator(".divergence").first().evaluate((box) => box.scrollIntoView({ block: "center" }));
  await shoot("divergence");
  await page.evaluate(() => scrollTo(0, 0));
  await shoot("episode");
} finally {
  await browser.close();
  child.kill();
}
