// A reporter for Node's test runner: prints failures with their reason, and a closing line.

export default async function* report(source) {
  let passed = 0;
  let failed = 0;
  for await (const { type, data } of source) {
    // The runner also reports each file as a test. Count a file only if it cannot be run.
    const file = data?.details?.type === "suite" || data?.name?.endsWith(".test.mjs");
    if (type === "test:pass" && !file && !data.skip && !data.todo) passed += 1;
    if (type === "test:fail" && !data.todo) {
      failed += 1;
      yield `${data.name}\n${indented(data.details.error.cause ?? data.details.error)}\n`;
    }
    if (type === "test:stderr" || type === "test:stdout") yield data.message;
  }
  yield `node: ${passed} passed, ${failed} failed\n`;
}

const indented = (error) => `  ${error.stack ?? error}`.replaceAll("\n", "\n  ");
