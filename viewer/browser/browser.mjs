// Chromium and the viewer's server for the browser suite.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

export const PYTHON = process.env.PYTHON ?? "python3";
export const ROOT = new URL("../..", import.meta.url).pathname;

// Debian's Chromium, as root, on a machine without a screen and without a way out.
const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--font-render-hinting=none",
];

const named = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** The browser that is named, or Playwright's own where there is none. */
export const openBrowser = () =>
  chromium.launch({ executablePath: existsSync(named) ? named : undefined, args: FLAGS, timeout: 600_000 });

export const newFolder = () => mkdtempSync(join(tmpdir(), "actfirst-browser-"));

export function python(...args) {
  const environment = { ...process.env, PYTHONPATH: [join(ROOT, "src"), ROOT].join(":"), OMP_NUM_THREADS: "1" };
  return spawn(PYTHON, args, { cwd: ROOT, env: environment, stdio: ["ignore", "pipe", "inherit"] });
}

export const ended = (child) => new Promise((resolve) => (child.exitCode === null ? child.once("exit", resolve) : resolve()));

/** Start `actfirst view`; resolves with the process and the address that it prints. */
export async function view(...paths) {
  const child = python("-m", "actfirst", "view", ...paths);
  for await (const line of createInterface(child.stdout)) {
    if (line.startsWith("http://")) return { child, address: line };
  }
  throw new Error("actfirst view ended without an address");
}
