import type { Happening, Sandbox } from "../../sandbox/start-sandbox.ts";
import { printable } from "../output.ts";
import { relayYaml } from "./relay-yaml.ts";

interface Ready {
  readonly url: string;
  readonly apiUrl: string;
  readonly key: string;
  readonly secret: string;
  readonly service: string;
  readonly plan: string;
  readonly webhooks: readonly string[];
  readonly phoneNumberId: string;
  /** Of a template without variables. */
  readonly templateId: string | null;
}

export function readyOf(sandbox: Sandbox, service: string): Ready {
  const { url, apiUrl, key, secret, phoneNumberId } = sandbox;
  const template = sandbox.templates().find(({ variables, status }) => variables.length === 0 && status === "approved");
  return {
    url,
    apiUrl,
    key,
    secret,
    service,
    plan: sandbox.plan(),
    webhooks: sandbox.webhooks().map((webhook) => webhook.url),
    phoneNumberId,
    templateId: template?.id ?? null,
  };
}

/** What a person needs to know to begin. */
export function readyLines(ready: Ready): string[] {
  const { url, apiUrl, key, secret, service, plan, webhooks, templateId } = ready;
  const body = templateId === null ? { text: "Hola" } : { template: { id: templateId } };
  return [
    `The messaging service, played at ${url} (plan ${plan}). Ctrl-C ends it.`,
    "",
    `  API root   ${apiUrl}`,
    `  key        ${key}`,
    `  secret     ${secret}  (signs events, in the header x-${service}-signature)`,
    ...(webhooks.length === 0 ? ["  events go  nowhere"] : webhooks.map((webhook) => `  events go  to ${webhook}`)),
    "",
    "A first message (numbers that mean something are in docs/sandbox.md):",
    "",
    `  curl ${apiUrl}/messages -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' \\`,
    `    -d '${JSON.stringify({ to: "+5491155551234", ...body })}'`,
    "",
    "A relay.yaml for it (--relay-config <file> writes it):",
    "",
    ...relayYaml(ready)
      .split("\n")
      .map((line) => `  ${line}`),
    "",
  ];
}

/** One line for something that happened. Phones are in clear: the people are made up. */
export function happeningLine(happening: Happening, now: Date): string {
  return printable(`${now.toISOString().slice(11, 19)} ${textOf(happening)}`);
}

function textOf(happening: Happening): string {
  switch (happening.what) {
    case "message": {
      const { phone, origin, status, errorCode, text } = happening.message;
      const code = errorCode === undefined || status !== "failed" ? "" : ` (${errorCode})`;
      const words = status === "pending" || status === "received" ? `  ${shortened(text)}` : "";
      return `message  ${phone} ${origin}: ${status}${code}${words}`;
    }
    case "event": {
      const { event, status: told, url, delivery } = happening;
      const { status, answered, tries, reason } = delivery;
      const outcome = status === "dropped" ? "dropped" : (answered ?? "no answer");
      const again = status === "waiting" ? `, try ${tries}, again later` : status === "failed" ? ", given up" : "";
      return `event    ${event}${told === null ? "" : ` ${told}`} → ${url} ${outcome}${again}${reason === null ? "" : ` (${reason})`}`;
    }
    case "run":
      return `run      ${happening.run.id} ${happening.run.status}${happening.run.error === null ? "" : `: ${happening.run.error}`}`;
    case "refused":
      return `refused  ${happening.method} ${happening.path} ${happening.status} ${shortened(happening.error)}`;
    case "failed":
      return `failed   the sandbox itself: ${happening.error instanceof Error ? happening.error.stack : String(happening.error)}`;
  }
}

function shortened(text: string): string {
  return text.length > 100 ? `${text.slice(0, 99)}…` : text;
}
