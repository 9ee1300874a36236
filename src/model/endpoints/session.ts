import { z } from "zod";
import { sessionCodeSchema, sessionEndedSchema, sessionSchema } from "../answers.ts";

export const sessions = {
  startSession: {
    scope: null,
    accounts: "none",
    open: true,
    summary: "Signs in to the console",
    description:
      "Sets a cookie for 12 hours. A request with the cookie needs the header `x-wamid-relay: console`. Changing or removing the token ends its sessions. A bad token or code counts toward `control.badTokenLimit`.",
    body: z.union([
      z.strictObject({ token: z.string().min(1).max(4096).describe("A token of `control.tokens`.") }),
      z.strictObject({ code: z.string().min(1).max(256).describe("A code of `POST /v1/session/code`. It works once, for 60 seconds.") }),
    ]),
    answers: { 200: { schema: sessionSchema } },
  },
  getSession: {
    scope: null,
    accounts: "none",
    open: true,
    summary: "The session of the cookie",
    answers: { 200: { schema: sessionSchema } },
  },
  endSession: {
    scope: null,
    accounts: "none",
    open: true,
    summary: "Signs out",
    description: "Ends the session of the cookie on all processes, and deletes the cookie.",
    answers: { 200: { schema: sessionEndedSchema } },
  },
  createSessionCode: {
    scope: null,
    accounts: "none",
    summary: "A one-time code that signs in to the console",
    description: "For 60 seconds, with the rights of the bearer token. A session cannot create one.",
    answers: { 200: { schema: sessionCodeSchema } },
  },
} as const;
