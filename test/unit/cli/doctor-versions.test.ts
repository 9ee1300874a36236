import { expect, test } from "vitest";
import { assessVersions } from "../../../src/cli/doctor/store.ts";
import type { Presence } from "../../../src/store/postgres/server.ts";

test("processes of different versions on one store are a warning that names them", () => {
  const presence = (pid: number, version: string, role: Presence["role"] = "both"): Presence => ({
    id: String(pid),
    role,
    host: "here",
    pid,
    version,
    since: 0,
  });
  expect(assessVersions([presence(1, "1.0.0"), presence(2, "1.0.0"), presence(3, "1.1.0", "command")])).toEqual([]);
  expect(assessVersions([presence(1, "1.1.0"), presence(2, "1.0.0"), presence(3, "1.1.0")])).toMatchObject([
    { level: "warn", message: "run different versions: 1.0.0 (process 2 on here); 1.1.0 (process 1 on here, process 3 on here)" },
  ]);
});
