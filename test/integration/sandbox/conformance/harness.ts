import { afterAll } from "vitest";
import { startSandbox } from "../../../../src/sandbox/start-sandbox.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";
import { until } from "../../../harness/until.ts";
import { type Answer, callPlainly } from "./plain-http.ts";

export const second = 1_000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;

type Plan = "trial" | "growth" | "escala" | "enterprise";

/**
 * The service on a clock that stands still. Everything beside the API itself is set up through
 * `/sandbox`.
 */
export type Service = Awaited<ReturnType<typeof startService>>;

/** One for all tests of a file. */
export async function serviceOfFile() {
  const service = await startService();
  afterAll(() => service.close());
  return service;
}

/**
 * An account of the service with a key. `api` calls with that key; `box` is `/sandbox` for this
 * account.
 */
export type Account = Awaited<ReturnType<Service["account"]>>;

/**
 * Starts a sandbox and stops its clock at noon UTC on the 10th of a month, so that no test crosses
 * the end of a month or of a minute unless it means to.
 */
export async function startService(options: Parameters<typeof startSandbox>[0] = {}) {
  // The machine's time stands still too: no receiver is too slow for its ten seconds.
  const sandbox = await startSandbox({
    clock: createManualClock(),
    seed: "conformance",
    ...options,
  });
  const root = new URL(sandbox.url).origin;
  let accounts = 0;
  let phones = 0;

  const box = async <T>(method: string, path: string, body?: unknown): Promise<Answer<T>> => {
    const answer = await callPlainly<T>(method, `${root}/sandbox${path}`, { body });
    if (answer.status >= 500)
      throw new Error(`${method} /sandbox${path}: ${answer.status} ${answer.text}`);
    return answer;
  };
  const clock = async (body: object) =>
    (await box<{ now: number }>("POST", "/clock", body)).body.now;
  const now = await clock({ frozen: true });
  const start = new Date(now);
  const tenth = (month: number) => Date.UTC(start.getUTCFullYear(), month, 10, 12);
  const noon =
    tenth(start.getUTCMonth()) > now ? tenth(start.getUTCMonth()) : tenth(start.getUTCMonth() + 1);
  await clock({ advanceMs: noon - now });

  const api = <T>(
    method: string,
    path: string,
    call: { key?: string; body?: unknown; from?: string; headers?: Record<string, string> } = {},
  ) =>
    callPlainly<T>(method, `${root}/api/v1${path}`, {
      headers: {
        ...(call.key === undefined ? {} : { authorization: `Bearer ${call.key}` }),
        ...call.headers,
      },
      ...(call.body === undefined ? {} : { body: call.body }),
      ...(call.from === undefined ? {} : { from: call.from }),
    });

  return {
    root,
    sandbox,
    api,
    box,
    now: async () => (await box<{ now: number }>("GET", "/clock")).body.now,
    /** Moves the clock on; gives the time there. */
    advance: (ms: number) => clock({ advanceMs: ms }),
    /** Resolves once every delivery that can go out at this time has gone out. */
    async delivered(): Promise<void> {
      await until("no delivery waits", async () => {
        const { body } = await box<{ waiting: number }>("GET", "/deliveries/waiting");
        return body.waiting === 0;
      });
    },
    /**
     * A phone that nobody has written to yet, ending in the four digits given: they say how its
     * messages fare.
     */
    phone(ending = "1234"): string {
      phones += 1;
      return `+54911${String(phones).padStart(4, "0")}${ending}`;
    },
    async account(setup: { plan?: Plan; contactLimit?: number } = {}) {
      accounts += 1;
      const name = `account-${accounts}`;
      const made = await box<{ name: string; plan: string; key: string; phoneNumberId: string }>(
        "POST",
        "/accounts",
        { name, ...setup },
      );
      if (made.status !== 201) throw new Error(`no account: ${made.status} ${made.text}`);
      const { key, phoneNumberId } = made.body;
      const ofAccount = (path: string) => `${path}${path.includes("?") ? "&" : "?"}account=${name}`;
      return {
        name,
        key,
        phoneNumberId,
        api: <T>(method: string, path: string, body?: unknown) =>
          api<T>(method, path, { key, body }),
        box: <T>(method: string, path: string, body?: unknown) =>
          box<T>(method, ofAccount(path), body),
        /** The customer with this phone writes: the 24-hour window opens. */
        async customerWrites(phone: string, text = "Hola", name?: string) {
          const path = ofAccount(`/customers/${encodeURIComponent(phone)}/messages`);
          const answer = await box<{ id: string; wamid: string }>("POST", path, {
            text,
            ...(name === undefined ? {} : { name }),
          });
          if (answer.status !== 201)
            throw new Error(`the customer could not write: ${answer.status} ${answer.text}`);
          return answer.body;
        },
        /** An approved template without variables, unless told otherwise. */
        async template(template: object = {}): Promise<string> {
          const answer = await box<{ id: string }>("POST", ofAccount("/templates"), {
            name: "Aviso",
            body: "Su pedido está en camino",
            ...template,
          });
          if (answer.status !== 201)
            throw new Error(`no template: ${answer.status} ${answer.text}`);
          return answer.body.id;
        },
        async webhook(url: string, more: object = {}) {
          const answer = await box<{ id: string; url: string; events: string[]; secret: string }>(
            "POST",
            ofAccount("/webhooks"),
            {
              url,
              ...more,
            },
          );
          if (answer.status !== 201) throw new Error(`no webhook: ${answer.status} ${answer.text}`);
          return answer.body;
        },
        async automation(more: object = {}) {
          const path = ofAccount("/automations");
          const answer = await box<{ id: string; token: string; hookUrl: string }>("POST", path, {
            name: "Bienvenida",
            ...more,
          });
          if (answer.status !== 201)
            throw new Error(`no automation: ${answer.status} ${answer.text}`);
          return answer.body;
        },
        async usage(): Promise<Usage> {
          return (await box<Usage>("GET", ofAccount("/usage"))).body;
        },
        async messages(): Promise<SeenMessage[]> {
          return (await box<{ data: SeenMessage[] }>("GET", ofAccount("/messages?limit=1000"))).body
            .data;
        },
        async message(id: string): Promise<SeenMessage> {
          return (await box<SeenMessage>("GET", ofAccount(`/messages/${encodeURIComponent(id)}`)))
            .body;
        },
        async runs(): Promise<{ id: string; status: string; error: string | null }[]> {
          return (
            await box<{ data: { id: string; status: string; error: string | null }[] }>(
              "GET",
              ofAccount("/runs"),
            )
          ).body.data;
        },
      };
    },
    close: () => sandbox.close(),
  };
}

export interface Counted {
  readonly used: number;
  readonly limit: number | null;
}

export interface Usage {
  readonly month: string;
  readonly apiCalls: Counted;
  readonly webhookDeliveries: Counted;
  readonly automationSteps: Counted;
  readonly automationRequests: Counted;
}

/** A message as the account's chat shows it. */
export interface SeenMessage {
  readonly id: string;
  readonly wamid: string;
  readonly conversationId: string;
  readonly phone: string;
  readonly text: string;
  readonly origin: string;
  readonly status: string;
}

export interface Sent {
  readonly id: string;
  readonly wamid: string;
  readonly status: string;
  readonly conversationId: string;
}
