import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { everyCommand } from "../../harness/every-command.ts";
import { runHere } from "../../harness/run-here.ts";
import { runCli } from "./run-cli.ts";

/*
 * The table "Exit codes" of docs/reference/commands.md. Code 3, and code 1 of a command that did
 * its work and found something wrong, are tested with the command: reconcile, audit, doctor, retry,
 * track, trigger, verify, demo. Code 2 of each value: usage.test.ts.
 */

const nowhere = "/nowhere/relay.yaml";
/** Options that a command needs before it reads its settings. */
const needed: Readonly<Record<string, readonly string[]>> = {
  migrate: ["--from", "sqlite", "--to", "postgres"],
  send: ["--to", "+5491155550100", "--text", "hola"],
  track: ["--wamid", "wamid.x"],
  trigger: ["message.status"],
  resume: ["everything"],
  verify: ["--body", "package.json", "--source", "main"],
};
/**
 * How commands without --config fail. `config schema` does not; the failures of `init` and `demo`
 * are tested with them.
 */
const failing: Readonly<Record<string, readonly string[]>> = {
  sandbox: ["--port", "0", "--state", "/nowhere/sandbox.db"],
  verify: ["--secret-file", "/nowhere/secret", "--body", "/nowhere/body"],
};
const wrongUsage = { code: 2, out: "", err: expect.stringMatching(/^(error|Usage): ?/) };

test.each(everyCommand)(
  "$name: its codes of wrong usage and of settings that cannot be read",
  async ({ name, command }) => {
    const path = name.split(" ");
    const { options, registeredArguments: args } = command;
    expect(await runHere([...path, "--no-such-option"])).toEqual(wrongUsage);
    if (args.at(-1)?.variadic !== true)
      expect(await runHere([...path, ...args.map(() => "x"), "one-too-many"])).toEqual(wrongUsage);

    if (options.some(({ long }) => long === "--config")) {
      const required = args.filter((each) => each.required).map(() => "1");
      const { code, out, err } = await runHere([
        ...path,
        ...required,
        ...(needed[name] ?? []),
        "--config",
        nowhere,
      ]);
      expect([code, err]).toEqual([1, expect.stringMatching(/^wamid-relay: /)]);
      // Doctor reports on standard output although it failed.
      expect(name === "doctor" ? out : err).toContain(nowhere);
      if (name !== "doctor") expect(out).toBe("");
    } else if (!["init", "demo", "config schema"].includes(name))
      expect(failing).toHaveProperty(name);
    const how = failing[name];
    if (how === undefined) return;
    expect(await runHere([...path, ...how])).toEqual({
      code: 1,
      out: "",
      err: expect.stringMatching(/^wamid-relay: .*\/nowhere\//m),
    });
  },
);

test.each([[["--help"]], [["help"]], [["--version"]]])("%j ends with 0", async (args) => {
  expect(await runHere(args)).toMatchObject({ code: 0, err: "" });
});

test("a process ends with these codes", async () => {
  expect((await runCli(["--version"])).code).toBe(0);
  expect((await runCli(["events", "list", "--config", nowhere])).code).toBe(1);
  expect((await runCli(["events", "list", "--no-such-option"])).code).toBe(2);
});

test("docs/reference/commands.md lists the codes once", () => {
  const docs = readFileSync("docs/reference/commands.md", "utf8");
  const table = /^## Exit codes\n([\s\S]*?)(?=^## )/m.exec(docs)?.[1] ?? "";
  expect([...table.matchAll(/^\| (\d[\d, ]*) \|/gm)].map(([, code]) => code)).toEqual([
    "0",
    "1",
    "2",
    "3",
    "9",
    "130, 143",
  ]);
});

test("an error quotes an argument without what a terminal would act upon", async () => {
  const { code, out, err } = await runHere(["\u001b[2Jevents"]);
  expect([code, out]).toEqual([2, ""]);
  expect(err).toContain("\\u001b[2Jevents");
  expect(err).not.toContain("\u001b");
});
