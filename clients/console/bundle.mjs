// Bundles the page's sources into the files that the program embeds: node bundle.mjs. With --check, writes nothing, and fails if the
// bundle is out of date.

import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const folder = path.join(path.dirname(fileURLToPath(import.meta.url)), "../../crates/admin/src/console");
const sources = path.join(folder, "page");
const bundle = path.join(folder, "bundle");

// Returns the bundle's files by name: those that browsers load, and the digests of the sources, by which `cargo test` detects an
// outdated bundle.
export async function made() {
  const { outputFiles } = await build({
    absWorkingDir: sources,
    entryPoints: ["boot.js", "main.js", "main.css"],
    outdir: bundle,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2024",
    charset: "utf8",
    legalComments: "none",
    logLevel: "error",
    write: false,
  });
  const files = Object.fromEntries(outputFiles.map((file) => [path.basename(file.path), file.text]));
  return { ...files, "sources.txt": await digests() };
}

async function digests() {
  const found = await readdir(sources, { recursive: true, withFileTypes: true });
  const names = found.filter((entry) => entry.isFile() && /\.(js|css)$/.test(entry.name)).map((entry) => path.relative(sources, path.join(entry.parentPath, entry.name)).replaceAll(path.sep, "/"));
  const lines = await Promise.all(names.sort().map(async (name) => `${createHash("sha256").update(await readFile(path.join(sources, name))).digest("hex")}  ${name}\n`));
  return lines.join("");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await mkdir(bundle, { recursive: true });
  let isOld = false;
  for (const [name, text] of Object.entries(await made())) {
    const file = path.join(bundle, name);
    if ((await readFile(file, "utf8").catch(() => "")) === text) continue;
    if (process.argv.includes("--check")) isOld = console.error(`${name} is not the one of the sources: node bundle.mjs`) ?? true;
    else await writeFile(file, text);
  }
  if (isOld) process.exit(1);
}
