import { expect, test } from "vitest";
import { hello, openRelay } from "./open-relay.ts";

test("counts the calls of the minute against the caps after a restart", async () => {
  const relay = await openRelay({ account: { plan: "escala", share: 0.1 } });
  const used = async () => {
    const text = await (await fetch(`${relay.url}/metrics`)).text();
    const of = (cap: string) =>
      Number(
        new RegExp(`^relay_service_slots_used\\{account="main",cap="${cap}"\\} (\\d+)$`, "m").exec(
          text,
        )?.[1],
      );
    return { requests: of("requests"), messages: of("messages") };
  };
  // Six messages a minute are ours; the first goes at once.
  expect((await relay.send(hello, "a")).status).toBe(201);
  expect(await used()).toEqual({ requests: 1, messages: 1 });
  await relay.restart();
  expect(await used()).toEqual({ requests: 1, messages: 1 });
  expect((await relay.send(hello, "b")).status).toBe(201);
  await relay.restart();
  await relay.restart();
  expect(await used()).toEqual({ requests: 2, messages: 2 });
});
