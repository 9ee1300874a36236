import { onTestFinished } from "vitest";
import { z } from "zod";
import { type Clock, systemClock } from "../../../src/model/clock.ts";
import { type SandboxOptions, startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import type { RelayAnswer } from "../../harness/ask-relay.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import type { SettingsParts } from "../../harness/relay-settings.ts";

/** Of a call to the service (src/service/client.ts). */
const callTimeoutMs = 10_000;

/**
 * The machine's clock, but for the deadlines of calls to the service, which come only when told.
 */
function createDeadlineClock(): Clock & { expire(): void; deadlines(): number } {
  const deadlines = new Set<() => void>();
  return {
    now: systemClock.now,
    after(ms, run) {
      if (ms !== callTimeoutMs) return systemClock.after(ms, run);
      deadlines.add(run);
      return () => void deadlines.delete(run);
    },
    expire() {
      for (const run of [...deadlines]) {
        deadlines.delete(run);
        run();
      }
    },
    deadlines: () => deadlines.size,
  };
}

const sent = z.object({
  id: z.string(),
  wamid: z.string(),
  conversationId: z.string(),
  idempotencyKey: z.string(),
});
const started = z.object({ runId: z.string() });
const page = z.object({
  data: z.array(z.looseObject({ wamid: z.string().optional() })),
  next: z.number().nullable(),
});

/** An answer that a message was sent; fails where it is another, as the two after it do. */
export const sentOf = ({ body }: RelayAnswer) => sent.parse(body);
/** That a run was started. */
export const startedOf = ({ body }: RelayAnswer) => started.parse(body);
/** A page of messages or runs. */
export const pageOf = ({ body }: RelayAnswer) => page.parse(body);

/** A phone whose customer wrote, so that text may be sent. */
export const openPhone = "+5491155550100";
export const hello = { to: openPhone, text: "Tu pedido salió." };

export type SendingRelay = Awaited<ReturnType<typeof openRelay>>;

/** A relay in this process, over HTTP, with the sandbox as its messaging service. */
export async function openRelay(
  options: { settings?: SettingsParts; account?: object; sandbox?: SandboxOptions } = {},
) {
  const sandbox = await startSandbox({ plan: "enterprise", seed: 1, ...options.sandbox });
  sandbox.customerWrites(openPhone, "Hola");
  const clock = createDeadlineClock();
  const relay = await startRelayHere({
    clock,
    settings: {
      accounts: {
        main: {
          baseUrl: sandbox.url,
          apiKey: sandbox.key,
          plan: "enterprise",
          share: 1,
          ...options.account,
        },
      },
      sources: {
        main: { account: "main", signature: { service: "acme", secrets: [sandbox.secret] } },
      },
      server: { shutdownTimeout: "2s" },
      ...options.settings,
    },
  });
  onTestFinished(async () => {
    const stopped = relay.stop();
    clock.expire();
    await stopped;
    await sandbox.close();
  });
  return {
    sandbox,
    url: relay.url,
    send: (
      body: object,
      key: string | null = null,
      { query = "", signal }: { query?: string; signal?: AbortSignal } = {},
    ) =>
      relay.ask(`/v1/messages${query}`, {
        method: "POST",
        body,
        ...(key !== null && { headers: { "idempotency-key": key } }),
        ...(signal && { signal }),
      }),
    run: (automation: string, body: object, query = "") =>
      relay.ask(`/v1/automations/${automation}/runs${query}`, { method: "POST", body }),
    get: (path: string) => relay.ask(path),
    /** The deadlines of calls to the service under way come. */
    expire: clock.expire,
    deadlines: clock.deadlines,
    /** Closes the relay and starts another on the same file. */
    async restart() {
      await relay.stop();
      await relay.start();
    },
  };
}

/** Messages that the account sent, as the sandbox has them. */
export const sentBy = ({ sandbox }: SendingRelay) =>
  sandbox.messages().filter(({ origin }) => origin === "api");
