import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createReloading } from "../../../src/app/reload.ts";
import { loading, parseSettings } from "../../../src/config/load.ts";
import { createRedactor } from "../../../src/model/redact.ts";
import { runInTurns } from "../../../src/model/steps.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

/**
 * Text of settings of which every route has another rate, secret and header than in the version
 * before.
 */
const settingsText = (version: number, routes = 3) =>
  JSON.stringify({
    routes: Array.from({ length: routes }, (_, n) => ({
      name: `r${n}`,
      match: { events: ["message.status"], where: { to: `+4930${n}` } },
      to: {
        url: `https://${n}.example/`,
        rate: `${version}/s`,
        secret: `whsec_${btoa(`a secret of ${version} and ${n}`.padEnd(32, "."))}`,
        headers: { authorization: `Bearer ${version}-${n}-token` },
      },
    })),
  });

const settingsFile = () => join(tempFolder(), "relay.yaml");

/** A reload of a file, and how many turns of the event loop others had. */
function start() {
  const path = settingsFile();
  const initial = parseSettings(settingsText(1), path, {});
  let settings = initial;
  const events: string[] = [];
  const gauge = { set: () => {} };
  const log = { info: () => {}, warn: () => {}, error: () => {} };
  const reloading = createReloading({
    file: path,
    initial,
    current: () => settings,
    *apply(next) {
      yield;
      settings = next;
      events.push(`applied ${next.routes[0]?.to.rate}`);
    },
    lastUse: () => undefined,
    now: () => 0,
    log: log as never,
    metrics: { reloadSuccess: gauge, reloadTimestamp: gauge } as never,
  });
  return {
    events,
    close: reloading.close,
    reload(version: number) {
      return reloading.reload(async () => {
        writeFileSync(path, settingsText(version));
        events.push(`read ${version}`);
        return { settings: await runInTurns(loading(path, {})), overridden: [] };
      }, "signal");
    },
  };
}

test("reports what changed, once it is in effect", async () => {
  const { reload, events } = start();
  const { result, changed } = await reload(2);
  expect(result).toBe("applied");
  expect(changed.slice(0, 4)).toEqual([
    "routes[r0].to.headers.authorization",
    "routes[r0].to.rate",
    "routes[r0].to.secret",
    "routes[r1].to.headers.authorization",
  ]);
  expect(events).toEqual(["read 2", "applied 2"]);
});

test("reloads run one after the other, and none begins after the close", async () => {
  const { reload, close, events } = start();
  const both = [reload(2), reload(3)];
  await both[0];
  const closing = close();
  expect((await Promise.all(both)).map(({ result }) => result)).toEqual(["applied", "applied"]);
  await closing;
  await reload(4);
  expect(events.filter((event) => event.endsWith("4"))).toEqual([]);
  expect(events.slice(0, 2)).toEqual(["read 2", expect.stringMatching("applied")]);
});

test("a reload of many routes parses and redacts in many steps", () => {
  const path = settingsFile();
  const routes = 50;
  const redactor = createRedactor(parseSettings(settingsText(1, routes), path, {}));
  writeFileSync(path, settingsText(2, routes));
  // The YAML is read token by token: each route has a dozen keys and values.
  expect([...loading(path, {})].length).toBeGreaterThan(12 * routes);
  // Each route has a secret and a header, and the previous ones are known until the next reload.
  expect(
    [...redactor.reload(parseSettings(settingsText(2, routes), path, {}))].length,
  ).toBeGreaterThanOrEqual(4 * routes);
});
