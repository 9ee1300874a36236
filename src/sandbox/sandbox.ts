import type { z } from "zod";
import type { Service } from "./assemble.ts";
import type { ClockControls } from "./clock.ts";
import type { AccountSetup } from "./control/account-setup.ts";
import type { Posting } from "./events/port.ts";
import type { FaultBox } from "./faults.ts";
import { faultsSchema } from "./faults.ts";
import { webhookOptionsSchema } from "./options.ts";
import type {
  AccountRecord,
  AutomationRecord,
  DeliveryRecord,
  EventRecord,
  MessageRecord,
  Plan,
  RunRecord,
  TemplateRecord,
  WebhookRecord,
} from "./world/records.ts";
import type { World } from "./world/world.ts";
import { mainAccount } from "./world/world.ts";

/** What an HTTP call got back; `body` is parsed JSON, or text that is none, or null: what it holds is for the caller to see. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

/** The messaging service, played on this machine. `await using` closes it. */
export interface Sandbox extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`: the base URL, of which the API root is `/api/v1`. */
  readonly url: string;
  readonly apiUrl: string;
  /** Of the account `main`, as all that follows. */
  readonly key: string;
  /** Signs the events of webhook URLs that have no secret of their own. */
  readonly secret: string;
  /** What Meta's handshake shows; null: the format is not `meta`. */
  readonly verifyToken: string | null;
  readonly phoneNumberId: string;
  /** Time as the sandbox has it: `advance(ms)` makes lives go on, windows close and quotas renew, in order. */
  readonly clock: ClockControls;
  /** Calls the API with the key: `call("POST", "/messages", {…})`. */
  call(method: string, path: string, body?: unknown): Promise<Answer>;
  /** Calls an endpoint of docs/contributing/sandbox.md: `control("PUT", "/faults", {…})` is `PUT /sandbox/faults`. */
  control(method: string, path: string, body?: unknown): Promise<Answer>;
  /** A customer writes to the account: the 24-hour window opens. */
  customerWrites(phone: string, text: string, name?: string): MessageRecord;
  /** Of the format `meta`, it is posted to once its handshake succeeded. */
  addWebhook(order: z.input<typeof webhookOptionsSchema>): WebhookRecord;
  /** Replaces all faults; without any, there are none. */
  setFaults(faults?: z.input<typeof faultsSchema>): void;
  /** The account's plan now. */
  plan(): Plan;
  /** Copies of the records as they are now, oldest first; so are those that follow. */
  webhooks(): WebhookRecord[];
  templates(): TemplateRecord[];
  automations(): AutomationRecord[];
  messages(): MessageRecord[];
  runs(): RunRecord[];
  events(): (EventRecord & { readonly deliveries: readonly DeliveryRecord[] })[];
  /** Resolves once no event waits to be delivered; rejects after `withinMs` (default 5,000). */
  idle(withinMs?: number): Promise<void>;
  close(): Promise<void>;
}

/** Who fills the handle with life: see start-sandbox.ts. */
export interface SandboxParts {
  readonly world: World;
  readonly url: string;
  /** Not given: the first that is valid. */
  readonly key: string | undefined;
  readonly secret: string;
  readonly verifyToken: string | null;
  readonly clock: ClockControls;
  readonly setup: AccountSetup;
  readonly faults: FaultBox;
  readonly posting: Pick<Posting, "idle" | "waiting">;
  customerWrites: Service["customerWrites"];
  webhookAdded(webhook: WebhookRecord): void;
  after(ms: number, run: () => void): () => void;
  close(): Promise<void>;
}

export function createHandle(parts: SandboxParts): Sandbox {
  const { world, url, secret, verifyToken, clock, setup, faults, posting } = parts;
  const apiUrl = `${url}/api/v1`;
  const account = world.accounts.get(mainAccount) as AccountRecord;
  const key = parts.key ?? world.keys.list(mainAccount).find(({ revokedAt }) => revokedAt === null)?.key ?? "";
  let closing: Promise<void> | null = null;
  const close = () => {
    closing ??= parts.close();
    return closing;
  };
  return {
    url,
    apiUrl,
    key,
    secret,
    verifyToken,
    phoneNumberId: account.numbers[0]?.phoneNumberId ?? "",
    clock,
    call: (method, path, body) => ask(method, `${apiUrl}${path}`, { authorization: `Bearer ${key}` }, body),
    control: (method, path, body) => ask(method, `${url}/sandbox${path}`, {}, body),
    customerWrites: (phone, text, name) =>
      structuredClone(parts.customerWrites(mainAccount, name === undefined ? { phone, text } : { phone, text, name })),
    addWebhook(order) {
      const webhook = setup.addWebhook(account, webhookOptionsSchema.parse(order));
      parts.webhookAdded(webhook);
      return structuredClone(webhook);
    },
    setFaults: (given = {}) => faults.set(faultsSchema.parse(given)),
    plan: () => account.plan,
    webhooks: () => structuredClone([...world.webhooks.list(mainAccount)]),
    templates: () => structuredClone([...world.templates.list(mainAccount)]),
    automations: () => structuredClone([...world.automations.list(mainAccount)]),
    messages: () => structuredClone([...world.messages.list(mainAccount)]),
    runs: () => structuredClone([...world.runs.list(mainAccount)]),
    events() {
      const deliveries = Map.groupBy(world.deliveries.list(mainAccount), ({ eventId }) => eventId);
      return structuredClone(world.events.list(mainAccount).map((event) => ({ ...event, deliveries: deliveries.get(event.id) ?? [] })));
    },
    async idle(withinMs = 5_000) {
      const late = Promise.withResolvers<never>();
      const cancel = parts.after(withinMs, () => late.reject(new Error(`${posting.waiting()} deliveries still wait after ${withinMs} ms`)));
      try {
        await Promise.race([posting.idle(), late.promise]);
      } finally {
        cancel();
      }
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

async function ask(method: string, url: string, headers: Record<string, string>, body: unknown): Promise<Answer> {
  const answer = await fetch(url, {
    method,
    headers: body === undefined ? headers : { ...headers, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, body: text === "" ? null : parsed(text) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
