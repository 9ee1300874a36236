import type { Command, Redis } from "ioredis";
import { expect, test } from "vitest";
import { readScript } from "../../../src/store/redis/script.ts";

/** A server that knows no script until it was given its text. */
function server(fault: () => Error | null = () => null) {
  let knows = false;
  const commands: Command[] = [];
  const sent: string[] = [];
  const redis = {
    async sendCommand(command: Command): Promise<unknown> {
      commands.push(command);
      sent.push(`${command.name} ${command.args.slice(1).join(" ")}`);
      const found = fault();
      if (found !== null) throw found;
      if (command.name === "evalsha" && !knows) throw new Error("NOSCRIPT No matching script. Please use EVAL.");
      knows = true;
      return "done";
    },
  };
  return {
    redis: redis as unknown as Redis,
    sent,
    held: () => commands.flatMap(({ args }) => args),
    forget: () => {
      knows = false;
    },
  };
}

test("the text goes only to a server that does not know it, and again when it has forgotten it", async () => {
  const { redis, sent, forget } = server();
  const script = readScript("lease");
  const run = (argument: string) => script.run(redis, "{relay}:seq", [argument]);
  expect(await run("a")).toBe("done");
  expect(await run("b")).toBe("done");
  forget();
  expect(await run("c")).toBe("done");
  const line = (name: string, argument: string) => `${name} 1 {relay}:seq ${argument}`;
  expect(sent).toEqual([line("evalsha", "a"), line("eval", "a"), line("evalsha", "b"), line("evalsha", "c"), line("eval", "c")]);
});

test.each(["done", "failed"])("what a run carried is let go: %s", async (end) => {
  const { redis, sent, held } = server(() => (end === "failed" ? new Error("OOM command not allowed") : null));
  const outcome = await readScript("lease")
    .run(redis, "{relay}:seq", ["large", Buffer.from("bytes")])
    .catch((error: unknown) => String(error));
  expect(outcome).toBe(end === "failed" ? "Error: OOM command not allowed" : "done");
  expect(sent).toHaveLength(end === "failed" ? 1 : 2);
  expect(held()).toEqual([]);
});
