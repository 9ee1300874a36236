import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";

export interface BenchResult {
  readonly bench: string;
  readonly machine: { readonly cores: number; readonly syncMs: { readonly p50: number } };
  readonly figures: Readonly<Record<string, unknown>>;
  readonly ratios: Readonly<Record<string, unknown>>;
}

/**
 * Runs a file of `bench/` as its users do and reads its last line. Rejects with all it said when it
 * fails.
 */
export async function runBench(file: string, args: readonly string[]): Promise<BenchResult> {
  const script = fileURLToPath(new URL(`../../bench/${file}`, import.meta.url));
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  execFile(process.execPath, [script, ...args], { timeout: 280_000 }, (error, stdout, stderr) => {
    if (error === null) resolve(stdout);
    else reject(new Error(`${file} ${args.join(" ")}: ${error.message}\n${stdout}\n${stderr}`));
  });
  const last = (await promise).trim().split("\n").at(-1) ?? "";
  return JSON.parse(last) as BenchResult;
}
