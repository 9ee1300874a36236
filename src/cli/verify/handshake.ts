import type { Secret } from "../../model/secret.ts";
import { isAnyOf } from "../../receive/check.ts";
import { answerHandshake } from "../../receive/handshake.ts";
import { CommandFailed, type Io } from "../io.ts";
import { print } from "../output.ts";
import type { RawRequest } from "./captured.ts";

/** Null: the request is no handshake. `fault`: why the relay would answer 403; null when it would answer the challenge. */
export function checkHandshake({ method, url }: RawRequest, tokens: readonly Secret[]): { readonly fault: string | null } | null {
  const query = new URLSearchParams(url.slice(url.indexOf("?") + 1));
  if (method !== "GET" || ![...query.keys()].some((key) => key.startsWith("hub."))) return null;
  if (answerHandshake(url, tokens).isRight) return { fault: null };
  if (query.get("hub.mode") !== "subscribe") return { fault: "hub.mode is not subscribe" };
  const token = query.get("hub.verify_token") ?? "";
  if (token === "") return { fault: "hub.verify_token is missing" };
  if (isAnyOf(tokens, token) === undefined) return { fault: "hub.verify_token is none of these tokens" };
  return { fault: "hub.challenge is missing or too long" };
}

/** Throws {@link CommandFailed} when the relay would refuse it. */
export function printHandshake(
  { fault }: { readonly fault: string | null },
  options: { readonly json?: boolean | undefined },
  io: Io,
): void {
  print(io, options, { ok: fault === null, handshake: { fault } }, () =>
    fault === null ? ["Meta's handshake: the relay answers it with its challenge."] : [],
  );
  if (fault !== null) throw new CommandFailed(`Meta's handshake: the relay answers it with 403, because ${fault}`);
}
