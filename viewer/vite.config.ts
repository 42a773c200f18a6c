import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { defineConfig } from "vite";

const STATIC = "../src/actfirst/view/static";

/** A digest of everything that the pages are built from; a test compares it with the sources. */
function sources(): string {
  const folders = ["src", "public"].flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`),
  );
  const digest = createHash("sha256");
  for (const path of [...folders, "package.json", "tsconfig.json", "vite.config.ts"].sort()) {
    digest.update(`${path}\n`).update(readFileSync(path)).update("\n");
  }
  return digest.digest("hex");
}

// One classic script and one style sheet with fixed names: pages that are opened from disk cannot load modules.
export default defineConfig({
  base: "./",
  plugins: [{ name: "sources", closeBundle: () => (process.env.VITEST ? undefined : writeFileSync(`${STATIC}/sources.txt`, `${sources()}\n`)) }],
  build: {
    outDir: STATIC,
    emptyOutDir: true,
    cssCodeSplit: false,
    rollupOptions: {
      input: "src/main.tsx",
      output: { format: "iife", entryFileNames: "app.js", assetFileNames: "style[extname]" },
    },
  },
});
