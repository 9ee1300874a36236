import { type ObservedPost, type Sandbox, startSandbox } from "../../sandbox/start-sandbox.ts";
import type { People } from "./people.ts";
import { automationFails } from "./sends.ts";

/** Lives that take a minute take three seconds. */
const speed = 20;

/** What goes wrong on the events' way to the relay, as shares of all posts. */
const faults = { duplicate: 0.12, reorder: 0.12, truncate: 0.01, wrongSignature: 0.01, malformed: 0.015 };

/** The messaging service, played in this process: events go to the relay's source, and each post of one is told. */
export function startService(options: {
  readonly seed: string;
  readonly webhookUrl: string;
  readonly secret: string;
  readonly onPost: (post: ObservedPost) => void;
}): Promise<Sandbox> {
  const { seed, webhookUrl, secret, onPost } = options;
  return startSandbox({ seed, speed, isUnlimited: true, secret, faults: { events: faults }, webhooks: [{ url: webhookUrl }], onPost });
}

/** What is there before anything is sent: customers who wrote, and an automation that fails. */
export async function setScene(sandbox: Sandbox, { recipients }: People): Promise<void> {
  for (const { phone, wroteBefore } of recipients)
    if (wroteBefore) sandbox.customerWrites(phone, "Hola, ¿me avisan cuando esté mi pedido?");
  const { status } = await sandbox.control("POST", "/automations", {
    name: automationFails,
    steps: [{ type: "fail", error: "El pedido no existe." }],
  });
  if (status !== 201) throw new Error(`the sandbox took no automation: ${status}`);
}

/** A campaign to people of whom the relay is told nothing. */
export async function startCampaign(sandbox: Sandbox, strangers: readonly string[]): Promise<void> {
  if (strangers.length === 0) return;
  const { status } = await sandbox.control("POST", "/campaigns", { name: "Ofertas", phones: strangers, perSecond: 200 });
  if (status !== 201) throw new Error(`the sandbox started no campaign: ${status}`);
}

/** Whether nothing more will happen to any message or run by itself. */
export function isOver(sandbox: Sandbox, people: People): boolean {
  const messages = sandbox.messages();
  return (
    messages.filter(({ origin }) => origin === "campaign").length === people.strangers.length &&
    messages.every(({ future }) => future.length === 0) &&
    sandbox.runs().every(({ status }) => status !== "running")
  );
}
