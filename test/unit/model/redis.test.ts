import { expect, test } from "vitest";
import { redisErrorText, redisFaultOf } from "../../../src/net/redis.ts";

const reply = (message: string) =>
  Object.assign(new Error(message), {
    name: "ReplyError",
    command: { name: "set", args: ["k", "secret"] },
  });
const coded = (code: string) =>
  Object.assign(new Error(`connect ${code} 127.0.0.1:6379`), { code, syscall: "connect" });

test.each([
  [reply("LOADING Redis is loading the dataset in memory"), "loading", false],
  [reply("OOM command not allowed when used memory > 'maxmemory'."), "full", false],
  [
    reply(
      "OOM command not allowed when used memory > 'maxmemory'. script: abc, on @user_script:1.",
    ),
    "full",
    false,
  ],
  [reply("READONLY You can't write against a read only replica."), "read-only", false],
  [
    reply("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
    "read-only",
    false,
  ],
  [
    reply(
      "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    ),
    "disk",
    false,
  ],
  [reply("MISCONF Errors writing to the AOF file: No space left on device"), "disk", false],
  [reply("NOREPLICAS Not enough good replicas to write."), "replicas", false],
  [reply("CLUSTERDOWN Hash slot not served"), "cluster", false],
  [reply("MOVED 3999 127.0.0.1:6381"), "cluster", false],
  [
    reply("NOAUTH HELLO must be called with the client already authenticated, otherwise …"),
    "credentials",
    false,
  ],
  [reply("WRONGPASS invalid username-password pair or user is disabled."), "credentials", false],
  [reply("NOPERM this user has no permissions to run the 'set' command"), "credentials", false],
  [
    reply(
      "ERR Error running script (call to f_6c5e28a5): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.\n",
    ),
    "read-only",
    false,
  ],
  [
    reply(
      "ERR Error running script (call to f_6c5e28a5): @user_script:1: @user_script: 1: The user executing the script can't run this command or subcommand",
    ),
    "credentials",
    false,
  ],
  [reply("ERR DB index is out of range"), "database", false],
  [reply("ERR SELECT is not allowed in cluster mode"), "database", false],
  [reply("ERR max number of clients reached"), "clients", false],
  [
    reply("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."),
    "hung",
    false,
  ],
  [new Error("Command timed out"), "hung", true],
  [new Error("Connection is closed."), "unreachable", true],
  [
    new Error("Stream isn't writeable and enableOfflineQueue options is false"),
    "unreachable",
    false,
  ],
  [
    new Error("Reached the max retries per request limit (which is 0). Refer to …"),
    "unreachable",
    true,
  ],
  [coded("ECONNREFUSED"), "unreachable", false],
  [coded("ECONNRESET"), "unreachable", true],
  [coded("ENOTFOUND"), "unreachable", false],
  [coded("ETIMEOUT"), "unreachable", false],
  [coded("ESERVFAIL"), "unreachable", false],
  [coded("DEPTH_ZERO_SELF_SIGNED_CERT"), "stranger", false],
] as const)("%s is %s", (error, kind, mayBeDone) => {
  expect(redisFaultOf(error)).toMatchObject({ kind, mayBeDone });
});

test("reports no fault of Redis for an invalid command or a bug of the relay", () => {
  for (const message of [
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "ERR syntax error",
    "NOSCRIPT No matching script.",
    "ERR Error running script (call to f_6c5e28a5): @user_script:1: @user_script: 1: -WRONGTYPE Operation",
    "boom",
  ]) {
    expect(redisFaultOf(reply(message))).toBeNull();
  }
  for (const thrown of [null, undefined, "OOM", { message: "OOM" }])
    expect(redisFaultOf(thrown)).toBeNull();
});

test("never shows an argument of a command", () => {
  expect(
    redisErrorText(reply("ERR unknown command 'FOO', with args beginning with: 'wamid.abc' ")),
  ).toBe("ERR unknown command 'FOO'");
  expect(redisErrorText(reply(`ERR ${"x".repeat(1000)}\nsecond`))).toHaveLength(300);
});
