import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");

test("every way to start the relay gives Node the same flags", () => {
  const flags = /^#!\/usr\/bin\/env -S node (.+)\n/.exec(read("src/cli/wamid-relay.js"))?.[1];
  expect(flags).toMatch(/^--min-semi-space-size=(\d+) --max-semi-space-size=\1 --no-allocation-site-pretenuring$/);
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
  for (const name of ["start", "relay"]) expect(scripts[name], name).toContain(`exec node ${flags} src/cli/wamid-relay.js`);
  expect(read("Dockerfile")).toContain(`ENTRYPOINT ["node", "${flags?.replaceAll(" ", '", "')}", "dist/cli/wamid-relay.js"]`);
  expect(read("docs/cli.md")).toContain(`node ${flags} `);
});
