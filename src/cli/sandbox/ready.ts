import type { Sandbox } from "../../sandbox/start-sandbox.ts";
import { shellWord } from "../output.ts";

export type SandboxFormat = "standard" | "meta";

export const usualWebhooks = {
  standard: "http://127.0.0.1:8080/webhooks/main",
  meta: "http://127.0.0.1:8080/webhooks/wa",
} as const;

type Ready = ReturnType<typeof readyOf>;

export function readyOf(
  sandbox: Sandbox,
  { service, format }: { readonly service: string; readonly format: SandboxFormat },
) {
  const { url, apiUrl, key, secret, verifyToken, phoneNumberId } = sandbox;
  const template = sandbox
    .templates()
    .find(({ variables, status }) => variables.length === 0 && status === "approved");
  return {
    url,
    apiUrl,
    key,
    secret,
    service,
    plan: sandbox.plan(),
    webhooks: sandbox.webhooks().map((webhook) => webhook.url),
    phoneNumberId,
    format,
    verifyToken,
    /** Of a template without variables. */
    templateId: template?.id ?? null,
    template:
      template === undefined
        ? null
        : { name: template.metaName, language: { code: template.language } },
  };
}

export function readyLines(ready: Ready, isLoopbackHost: (url: string) => boolean): string[] {
  const {
    url,
    apiUrl,
    key,
    secret,
    service,
    plan,
    verifyToken,
    phoneNumberId,
    templateId,
    template,
    format,
  } = ready;
  const webhooks = ready.webhooks.length === 0 ? "nowhere" : ready.webhooks.join(", ");
  const isMeta = format === "meta";
  const facts: [string, string][] = isMeta
    ? [
        ["token", key],
        ["app secret", `${secret}  (signs webhooks, in the header x-hub-signature-256)`],
        ["verify token", verifyToken ?? ""],
        ["phone number id", phoneNumberId],
        ["webhooks go to", webhooks],
      ]
    : [
        ["API root", apiUrl],
        ["key", key],
        ["secret", `${secret}  (signs events, in the header x-${service}-signature)`],
        ["events to", webhooks],
      ];
  const width = Math.max(...facts.map(([name]) => name.length));
  const words = template === null ? { text: { body: "Hola" } } : { type: "template", template };
  const [messages, body] = isMeta
    ? [
        `${url}/v24.0/${phoneNumberId}/messages`,
        {
          messaging_product: "whatsapp",
          to: "5491155551234",
          ...words,
          biz_opaque_callback_data: "order-1",
        },
      ]
    : [
        `${apiUrl}/messages`,
        {
          to: "+5491155551234",
          ...(templateId === null ? { text: "Hola" } : { template: { id: templateId } }),
        },
      ];
  return [
    isMeta
      ? `Sandbox of Meta's Cloud API at ${url}. Ctrl-C stops it.`
      : `Sandbox of the messaging service at ${url} (plan ${plan}). Ctrl-C stops it.`,
    "",
    ...facts.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`),
    "",
    "A first message (numbers with a fixed outcome: docs/contributing/sandbox.md):",
    "",
    `  curl ${messages} -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' \\`,
    `    -d '${JSON.stringify(body)}'`,
    "",
    "Settings of a relay for it, in an empty folder:",
    "",
    `  ${initCommand(ready, ready.webhooks.find(isLoopbackHost) ?? usualWebhooks[format])}`,
    "",
  ];
}

function initCommand(
  { url, key, secret, service, format, verifyToken }: Ready,
  webhook: string,
): string {
  const { port } = new URL(webhook);
  const ofService = {
    "base-url": url,
    "service-name": service,
    "api-key": key,
    "webhook-secret": secret,
  };
  const options = {
    ...(format === "meta"
      ? { provider: format, "app-secret": secret, "verify-token": verifyToken ?? "" }
      : ofService),
    downstream: "http://127.0.0.1:3000/events",
    ...(port === "8080" ? {} : { port: port || "80" }),
  };
  const words = Object.entries(options).map(([name, value]) => `--${name} ${shellWord(value)}`);
  return ["wamid-relay init --yes", ...words].join(" \\\n    ");
}
