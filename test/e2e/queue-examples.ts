import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));
const page = readFileSync(join(root, "docs/how-to/feed-bullmq-workers.md"), "utf8");

export interface Example {
  /** The lines it has printed. */
  lines(): string[];
  stderr(): string;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
}

/** Runs the example of docs/how-to/feed-bullmq-workers.md whose first line names `file`, as it stands there, until the test's end. */
export function runExample(file: string, redisUrl: string): Example {
  const code = [...page.matchAll(/```js\n(\/\/ (\S+):[^\n]*\n[\s\S]*?)```/g)].find(([, , name]) => name === file)?.[1];
  if (code === undefined) throw new Error(`docs/how-to/feed-bullmq-workers.md has no ${file}`);
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-example-"));
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, file), code);
  const child: ChildProcess = spawn(process.execPath, [file], { cwd: folder, env: { ...process.env, REDIS_URL: redisUrl } });
  const texts = { out: "", err: "" };
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    texts.out += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    texts.err += text;
  });
  const gone = once(child, "exit");
  const kill = async () => {
    child.kill("SIGKILL");
    await gone;
  };
  onTestFinished(async () => {
    await kill();
    rmSync(folder, { recursive: true });
  });
  return { lines: () => texts.out.split("\n").slice(0, -1), stderr: () => texts.err, kill };
}
