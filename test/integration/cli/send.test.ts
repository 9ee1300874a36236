import { expect, test } from "vitest";
import { startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import { makeRelayHere } from "../../harness/relay-here.ts";
import { runOn, runProcessOn } from "./run-cli.ts";

const phone = "+5491155550100";

async function setUp() {
  const sandbox = await startSandbox({ plan: "enterprise" });
  sandbox.customerWrites(phone, "Hola");
  const relay = await makeRelayHere({
    settings: {
      accounts: { main: { baseUrl: sandbox.url, apiKey: sandbox.key, plan: "enterprise" } },
    },
  });
  const args = (more: readonly string[]) => ["send", "--to", phone, ...more];
  const send = (...more: string[]) => runOn(relay, ...args(more));
  const sendByProcess = (...more: string[]) => runProcessOn(relay, ...args(more));
  const sent = () => sandbox.messages().filter(({ origin }) => origin === "api");
  return { sandbox, relay, send, sendByProcess, sent };
}

test("sends through a running relay or the store, and sends a key once over both", async () => {
  const { sandbox, relay, send, sendByProcess, sent } = await setUp();
  await using _ = sandbox;
  await relay.start();
  const first = await sendByProcess("--text", "Hola", "--key", "k", "--reference", "order-1");
  const [message] = sent();
  expect(first).toMatchObject({ code: 0, err: "" });
  expect(first.out).toContain(message?.id);
  expect(first.out).not.toContain(message?.wamid);
  await relay.stop();

  const again = await sendByProcess(
    "--text",
    "Hola",
    "--key",
    "k",
    "--reference",
    "order-1",
    "--json",
    "--show-pii",
  );
  expect(again).toMatchObject({ code: 0, err: "" });
  expect(JSON.parse(again.out)).toMatchObject({
    id: message?.id,
    wamid: message?.wamid,
    reference: "order-1",
  });
  const here = await send("--text", "Hola", "--key", "k", "--reference", "order-1");
  expect(here).toMatchObject({ code: 0, err: "" });
  expect(here.out).toMatch(/^already sent {2}wamid:/);
  expect(sent()).toHaveLength(1);
  const template = sandbox.templates().find(({ variables }) => variables.length === 2)?.id ?? "";
  expect(
    await send("--template", template, "--var", "nombre=Ana", "--var", "fecha=lunes"),
  ).toMatchObject({ code: 0 });
  expect(sent().at(-1)?.text).toBe("Ana, te esperamos el lunes.");
});

test("exits with 1 and advice on an unknown outcome; --resend-unknown sends once more", async () => {
  const { sandbox, relay, send, sendByProcess, sent } = await setUp();
  await using _ = sandbox;
  await relay.start();
  sandbox.setFaults({ api: [{ answer: "reset", when: "after", times: 2 }] });
  const lost = await sendByProcess("--text", "Hola", "--key", "order 7", "--resend-unknown");
  expect(lost).toMatchObject({ code: 1, out: "" });
  expect(lost.err).toMatch(
    /check whether the message appears in the chat.*--key 'order 7' --resend-unknown/,
  );
  // Its own call is not what --resend-unknown was about.
  expect(sent()).toHaveLength(1);
  expect(await send("--text", "Hola", "--key", "order 7")).toMatchObject({ code: 1 });
  expect(sent()).toHaveLength(1);
  expect(await send("--text", "Hola", "--key", "order 7", "--resend-unknown")).toMatchObject({
    code: 1,
  });
  expect(sent()).toHaveLength(2);
  expect(await send("--text", "Hola", "--key", "order 7", "--resend-unknown")).toMatchObject({
    code: 0,
  });
  expect(await send("--text", "Hola", "--key", "order 7", "--resend-unknown")).toMatchObject({
    code: 0,
  });
  expect(sent()).toHaveLength(3);
  expect((await send("--text", "Otra", "--key", "order 7")).err).toContain(
    "belongs to another message",
  );
});

test("prints the service's own text on a refusal, and exits with 2 on wrong usage", async () => {
  const { sandbox, relay, send } = await setUp();
  await using _ = sandbox;
  await relay.start();
  const refused = await send("--template", "019a0000-0000-7000-8000-000000000000");
  expect(refused).toMatchObject({ code: 1, out: "" });
  expect(refused.err).toMatch(/^wamid-relay: the messaging service refuses it: .*plantilla/);
  for (const args of [
    [],
    ["--text", "a", "--template", "t"],
    ["--text", "a", "--var", "b=c"],
    ["--text", "a", "--resend-unknown"],
    ["--text", "a", "--metadata", "x"],
  ])
    expect([args, (await send(...args)).code]).toEqual([args, 2]);
});
