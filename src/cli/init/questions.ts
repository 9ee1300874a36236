import { createInterface } from "node:readline";
import { type Command, InvalidArgumentError } from "commander";
import { readPostgresUrl } from "../../model/postgres.ts";
import { CommandFailed } from "../io.ts";
import { givenFlag, httpUrl, matching, wordOf } from "../options.ts";
import type { SettingsParts } from "./texts.ts";

export const drivers = ["sqlite", "postgres"] as const;
export const providers = ["standard", "meta"] as const;

const wordText = matching(/^[A-Za-z0-9-]+$/, "It must have letters, digits and hyphens only.");
export const serviceName = (text: string): string => wordText(text).toLowerCase();

export function postgresUrl(text: string): string {
  if (readPostgresUrl(text) === null)
    throw new InvalidArgumentError(
      "It must be a URL such as postgres://user:password@host:5432/database.",
    );
  return secretText(text);
}

export function secretText(text: string): string {
  if (text === "" || /[\p{Cc}]/u.test(text))
    throw new InvalidArgumentError("It must be one line of text.");
  if (["'", '"', "`"].every((quote) => text.includes(quote)))
    throw new InvalidArgumentError("It must not contain all three kinds of quotes.");
  return text;
}

export interface Terminal {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
  readonly isTerminal: boolean | undefined;
}

type OfProvider = "baseUrl" | "apiKey" | "webhookSecret" | "appSecret" | "verifyToken";

/** By options. */
type Given = { readonly [Name in keyof Answers]?: Answers[Name] | undefined } & {
  readonly [Name in OfProvider]?: unknown;
} & { readonly yes?: boolean | undefined };

type Answers = Pick<SettingsParts, "provider" | "serviceName" | "downstream" | "storage"> & {
  readonly postgresUrl: string;
};

/** Asks for what the options leave out. Without a terminal, what has no option is wrong usage. */
export async function answersOf(
  command: Command,
  options: Given,
  terminal: Terminal,
): Promise<Answers> {
  const { serviceName: name, downstream, postgresUrl: url, yes = false } = options;
  const wrong = (message: string): never => command.error(`error: ${message}`);
  if (url !== undefined && options.storage === "sqlite")
    wrong("--postgres-url is for --storage postgres");
  const ofService = givenFlag(command, options, [
    "serviceName",
    "baseUrl",
    "apiKey",
    "webhookSecret",
  ]);
  const ofMeta = givenFlag(command, options, ["appSecret", "verifyToken"]);
  if (options.provider === "meta" && ofService !== undefined)
    wrong(`${ofService} is for --provider standard`);
  if (options.provider !== "meta" && ofMeta !== undefined)
    wrong(`${ofMeta} is for --provider meta`);
  const isAsking = !yes && terminal.isTerminal === true;
  if (!isAsking && !yes) {
    const missing = [
      ...(name === undefined && options.provider !== "meta" ? ["--service-name"] : []),
      ...(downstream === undefined ? ["--downstream"] : []),
    ];
    if (missing.length > 0)
      wrong(
        `standard input is no terminal, so nothing can be asked; give ${missing.join(" and ")}, or --yes for the defaults`,
      );
  }
  const ask = isAsking ? createQuestions(terminal) : null;
  const answer = async <T extends string>(
    given: T | undefined,
    question: string,
    fallback: T,
    read: (text: string) => T,
  ): Promise<T> => given ?? (ask === null ? fallback : ask.next(question, fallback, read));
  try {
    const provider = await answer(
      options.provider ?? (ofService === undefined ? undefined : "standard"),
      "Provider: standard (the relay's envelope) or meta (Meta's Cloud API)",
      "standard",
      wordOf(providers),
    );
    const serviceQuestion = "Short name of the messaging service (header x-<name>-signature)";
    const named =
      provider === "meta" ? "" : await answer(name, serviceQuestion, "acme", serviceName);
    const delivered = await answer(
      downstream,
      "Downstream URL, where events are delivered",
      "http://127.0.0.1:3000/webhooks",
      httpUrl,
    );
    const storage = await answer(
      options.storage ?? (url === undefined ? undefined : "postgres"),
      "Storage: sqlite (one file) or postgres (several processes)",
      "sqlite",
      wordOf(drivers),
    );
    const usual = "postgres://relay@127.0.0.1:5432/relay";
    const stored =
      storage === "sqlite" ? "" : await answer(url, "PostgreSQL URL", usual, postgresUrl);
    return { provider, serviceName: named, downstream: delivered, storage, postgresUrl: stored };
  } finally {
    ask?.close();
  }
}

function createQuestions({ input, output }: Terminal) {
  const lines = createInterface({ input, output });
  // The iterator keeps lines that arrive between two questions, as pasted ones do.
  const answers = lines[Symbol.asyncIterator]();
  let isClosed = false;
  lines.once("close", () => {
    isClosed = true;
  });
  return {
    /** Repeats the question until the answer is valid. An empty answer is the fallback. */
    async next<T extends string>(
      question: string,
      fallback: T,
      read: (text: string) => T,
    ): Promise<T> {
      for (;;) {
        lines.setPrompt(`${question} [${fallback}]: `);
        if (!isClosed) lines.prompt();
        const { value, done } = await answers.next();
        if (done === true)
          throw new CommandFailed(
            "the input ended before all questions were answered; nothing was written",
          );
        const text = value.trim();
        if (text === "") return fallback;
        try {
          return read(text);
        } catch (error) {
          if (!(error instanceof InvalidArgumentError)) throw error;
          output.write(`${error.message}\n`);
        }
      }
    },
    close: () => lines.close(),
  };
}
