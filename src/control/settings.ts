import type { FastifyInstance } from "fastify";
import { type ListenerView, listenersSchema, type SettingsView, settingsViewSchema } from "../model/answers.ts";
import { toAnswer } from "../model/view.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";

export interface SettingsPort {
  /** With secrets masked. */
  settings(): Promise<SettingsView>;
  listeners(): Promise<ListenerView[]>;
}

const settings = {
  method: "GET",
  path: "/v1/settings",
  name: "getSettings",
  scope: "read",
  summary: "The settings in effect, with secrets masked",
  description: "As `wamid-relay config print` shows them. Sections that need a restart are those of the start.",
  answers: { 200: { text: "The settings.", schema: settingsViewSchema } },
} as const;

const listeners = {
  method: "GET",
  path: "/v1/listeners",
  name: "listListeners",
  scope: "read",
  summary: "Connected listeners, and the cursors of others",
  description: "Several processes share the cursors. A listener is connected to one of them, which alone lists the connection.",
  answers: { 200: { text: "The listeners.", schema: listenersSchema } },
} as const;

/** `GET /v1/settings` and `GET /v1/listeners`. */
export function addSettingsRoutes(app: FastifyInstance, port: SettingsPort, allow: Allow): void {
  addEndpoint(app, allow, settings, async () => toAnswer(settingsViewSchema, await port.settings()));
  addEndpoint(app, allow, listeners, async () => toAnswer(listenersSchema, { data: await port.listeners() }));
}
