// Slow: each of these starts a server of its own.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { openSession } from "../harness/postgres-session.ts";
import { until } from "../harness/until.ts";
import { type PostgresVersion, startPostgres } from "./postgres.ts";

test.each<PostgresVersion>([14, 18])(
  "version %d keeps what it committed over a crash and a restart, and nothing when stopped",
  { tags: ["slow"] },
  async (version) => {
    const server = await startPostgres({ version, durable: true });
    try {
      const first = server.pid;
      {
        await using session = await openSession(server.url);
        expect(await session.rows("SHOW server_version")).toEqual([
          { server_version: expect.stringMatching(`^${version}\\.`) },
        ]);
        expect(await session.rows("SHOW fsync")).toEqual([{ fsync: "on" }]);
        await session.rows("CREATE TABLE kept AS SELECT 'committed' AS row");
        await session.rows("BEGIN");
        await session.rows("INSERT INTO kept VALUES ('open')");
        await server.kill("SIGKILL");
        await expect(session.rows("COMMIT")).rejects.toThrow();
      }
      expect(() => process.kill(first, 0)).toThrow("ESRCH");
      await server.restart();
      await server.restart();
      expect(server.pid).not.toBe(first);
      await using session = await openSession(server.url);
      expect(await session.rows("SELECT row FROM kept")).toEqual([{ row: "committed" }]);
    } finally {
      await server.stop();
    }
    expect(() => process.kill(server.pid, 0)).toThrow("ESRCH");
    expect(existsSync(server.dir)).toBe(false);
  },
);

test("a server ends and its folder goes when the process that started it is killed", {
  tags: ["slow"],
}, async () => {
  const module = new URL("postgres.ts", import.meta.url);
  const code = `import { startPostgres } from "${module}"; const { port, dir } = await startPostgres({ tcp: true }); console.log(JSON.stringify({ port, dir }))`;
  const starter = spawn(process.execPath, ["--input-type=module", "-e", code], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(starter.stdout, "data")) as [Buffer];
  const { port, dir } = JSON.parse(line.toString()) as { port: number; dir: string };
  expect(existsSync(dir)).toBe(true);
  expect(await accepts(port)).toBe(true);
  starter.kill("SIGKILL");
  await until("its folder is gone", () => !existsSync(dir));
  await until("nothing listens", async () => !(await accepts(port)));
});

async function accepts(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(port, "127.0.0.1", () => resolve(true));
  socket.once("error", () => resolve(false));
  const answer = await promise;
  socket.destroy();
  return answer;
}
