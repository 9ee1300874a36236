import type { BrowserContextOptions, Page } from "playwright-core";
import { type OpenPage, openPage } from "./browser.ts";
import { type FlakyDownstream, openFlakyDownstream } from "./flaky-downstream.ts";
import { postEvent } from "./post-event.ts";
import { createMessages } from "./posts.ts";
import { type AnyRelay, type RelayHere, startRelayHere } from "./relay-here.ts";
import { relayToken } from "./relay-settings.ts";

/** A token that may look at everything masked, and change nothing. */
export const readerToken = "harness-reader-token";

/** A token that may see and repeat what is of one account. */
export const limitedToken = "harness-limited-token";

/**
 * Settings with three tokens and two routes: `crm`, whose retries wait until somebody asks for
 * them, and `history`.
 */
export function consoleSettings(
  downstream: string,
  tokens: readonly object[] = allTokens,
  breaker: object = { failures: 100_000 },
): Record<string, unknown> {
  const to = (path: string) => ({ url: `${downstream}${path}`, allowPrivate: true, breaker });
  return {
    control: { tokens },
    routes: [
      {
        name: "crm",
        match: { events: ["message.status"] },
        to: { ...to("/crm"), retry: { schedule: ["0s", "1h"], jitter: 0 } },
      },
      { name: "history", match: { events: ["*"] }, to: to("/history") },
    ],
  };
}

export const allTokens = [
  {
    name: "harness",
    token: relayToken,
    scopes: ["read", "track", "send", "replay", "listen", "pii"],
  },
  { name: "reader", token: readerToken, scopes: ["read"] },
  { name: "limited", token: limitedToken, scopes: ["read", "replay"], accounts: ["main"] },
];

export interface ConsoleRelay {
  readonly relay: RelayHere;
  readonly downstream: FlakyDownstream;
  /** Status that the route `crm` gets; `history` always gets 200. */
  answer(status: number): void;
  /** A signed-in page at a path below `/console/`. */
  open(
    path: string,
    options?: BrowserContextOptions & { readonly token?: string },
  ): Promise<OpenPage>;
}

/** A relay with a console, and a downstream whose `crm` answers 503 at first. */
export async function startConsole(breaker?: object): Promise<ConsoleRelay> {
  let status = 503;
  const downstream = await openFlakyDownstream((path) => ({
    status: path === "/crm" ? status : 200,
  }));
  const relay = await startRelayHere({
    settings: consoleSettings(downstream.url, allTokens, breaker),
  });
  return {
    relay,
    downstream,
    answer(next) {
      status = next;
    },
    async open(path, { token = relayToken, ...options } = {}) {
      const opened = await openPage(relay.url, options);
      // The console asks whether there is a session.
      opened.expectMessages(/status of 401/);
      await signIn(opened.page, path, token);
      return opened;
    },
  };
}

/** Opens a path below `/console/` and signs in there. */
export async function signIn(page: Page, path: string, token: string): Promise<void> {
  await page.goto(`/console/${path}`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("● live").waitFor();
}

/** Posts one `sent` status for each of `count` new messages. Returns the wamids. */
export async function postMessages(
  { webhookUrl }: Pick<AnyRelay, "webhookUrl">,
  count: number,
  seed = "console",
): Promise<string[]> {
  const messages = createMessages(seed);
  const wamids = Array.from({ length: count }, messages.wamid);
  for (const wamid of wamids) await postEvent(webhookUrl, messages.status(wamid, "sent"));
  return wamids;
}
