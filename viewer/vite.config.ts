import { defineConfig } from "vite";

// One classic script and one style sheet with fixed names: pages that are opened from disk cannot load modules.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/actfirst/view/static",
    emptyOutDir: true,
    cssCodeSplit: false,
    rollupOptions: {
      input: "src/main.tsx",
      output: { format: "iife", entryFileNames: "app.js", assetFileNames: "style[extname]" },
    },
  },
});
