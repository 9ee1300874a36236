import { expect, test } from "vitest";
import { parse } from "yaml";
import { codeBlocks, readPage } from "../../harness/pages.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { runHere } from "../../harness/run-here.ts";

const [block = ""] = codeBlocks(readPage("docs/how-to/add-a-second-account.md"), "yaml");
const secrets = {
  WEBHOOK_SECRET: "webhook-secret-of-main",
  SHOP_WEBHOOK_SECRET: "webhook-secret-of-shop",
  SHOP_API_KEY: "api-key-of-shop",
};
const filled = block.replace(/\$\{(\w+)\}/g, (_, name: keyof typeof secrets) => secrets[name]);

test("the settings of add-a-second-account.md give each account its endpoint, secret and routes", async () => {
  const settings = parse(filled) as { accounts: { shop: { baseUrl: string } } };
  // No call leaves this machine.
  settings.accounts.shop.baseUrl = "http://127.0.0.1:9";
  const relay = await startRelayHere({ settings });
  const messages = createMessages("second");
  const post = (source: string, secret: string) =>
    postEvent(`${relay.url}/webhooks/${source}`, messages.status(messages.wamid(), "failed"), {
      secret,
    });
  expect((await post("main", secrets.WEBHOOK_SECRET)).word).toBe("accepted");
  expect((await post("shop", secrets.SHOP_WEBHOOK_SECRET)).word).toBe("accepted");
  expect((await post("shop", secrets.WEBHOOK_SECRET)).status).toBe(401);
  for (const [account, route] of [
    ["main", "crm"],
    ["shop", "shop-failures"],
  ] as const) {
    const list = async (...args: string[]) => {
      const { out } = await runHere([...args, "--json", "--config", relay.settingsPath]);
      return (JSON.parse(out) as { data: { account: string; route: string }[] }).data;
    };
    expect(
      (await list("events", "list", "--source", account)).map((event) => event.account),
    ).toEqual([account]);
    expect(
      (await list("deliveries", "list", "--route", route)).map((delivery) => delivery.route),
    ).toEqual([route]);
  }
});
