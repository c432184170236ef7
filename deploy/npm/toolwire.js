#!/usr/bin/env node
// Starts the program, which is in the package of this platform.
"use strict";

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const { isatty } = require("node:tty");
const { optionalDependencies, version } = require("../package.json");

const platform = `${process.platform}-${process.arch}`;
const name = `@toolwire/${platform}`;

function fail(message) {
  console.error(`toolwire: ${message}`);
  process.exit(1);
}

function program() {
  if (!(name in optionalDependencies)) {
    const platforms = Object.keys(optionalDependencies).map((each) => each.slice("@toolwire/".length));
    fail(`there is no program for ${platform} in npm packages, only for ${platforms.join(" and ")}. Build it with Rust instead: \`cargo install toolwire\`.`);
  }
  try {
    return require.resolve(`${name}/bin/toolwire`);
  } catch {
    fail(`the package ${name}, which contains the program, is not installed. Install toolwire on this machine, without \`--omit=optional\`, \
or add the package: \`npm install ${name}@${version}\`.`);
  }
}

function start(file, given) {
  const child = spawn(file, given, { stdio: "inherit" });
  // A terminal sends these to the program as well, and a second signal would abort open responses.
  const isSentTwice = [0, 1, 2].some(isatty) ? ["SIGINT", "SIGQUIT"] : [];
  for (const signal of ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"]) process.on(signal, () => isSentTwice.includes(signal) || child.kill(signal));
  child.on("error", (error) => fail(`cannot run ${file}: ${error.message}`));
  child.on("exit", (status, signal) => process.exit(status ?? 128 + os.constants.signals[signal]));
}

const file = program();
const given = process.argv.slice(2);
try {
  fs.accessSync(file, fs.constants.X_OK);
} catch (error) {
  fail(`cannot run ${file}: ${error.message}`);
}
// Since Node 22.15, the program can replace Node, so that nothing is between it and whoever started it.
if (process.execve) process.execve(file, [file, ...given]);
else start(file, given);
